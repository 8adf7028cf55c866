"""What counts as paid twice and as held in vain: the parts of invariants that a seed meets rarely."""

from dataclasses import replace

import pytest

from tests.simulation.invariants_hours import Held, Paid, SlotsOfHours

FIRST = Paid("hour_1", "ctr_1", 0, "cpu-nano", 0.0, 3600.0, 0.0)
OTHER = Paid("hour_2", "ctr_1", 1, "cpu-nano", 300.0, 3900.0, 300.0)


def test_what_passed_of_an_hour_in_another_slot_was_the_other_slots() -> None:
    slots = SlotsOfHours()
    assert not list(slots.twice([FIRST, OTHER]))
    moved = replace(OTHER, slot=0, seen_s=3700.0)
    assert not list(slots.twice([FIRST, moved]))
    assert not list(slots.twice([FIRST, replace(moved, seen_s=3800.0)]))


def test_an_hour_that_moves_to_a_slot_that_has_one_is_paid_twice() -> None:
    slots = SlotsOfHours()
    assert not list(slots.twice([FIRST, OTHER]))
    moved = replace(OTHER, slot=0, seen_s=1200.0)
    assert list(slots.twice([FIRST, moved])) == [
        "slot 0 of ctr_1 is charged twice for the same time: hour_1, hour_2"
    ]


@pytest.mark.parametrize(("begins_s", "twice"), [(3530.0, False), (3500.0, True), (10.0, True)])
def test_hours_of_a_slot_overlap_by_no_more_than_the_lead(begins_s: float, twice: bool) -> None:
    second = replace(FIRST, id="hour_2", begins_s=begins_s, ends_s=begins_s + 3600)
    third = replace(FIRST, id="hour_3", begins_s=begins_s + 3600, ends_s=begins_s + 7200)
    assert bool(list(SlotsOfHours().twice([third, second, FIRST]))) is twice


def test_another_type_or_slot_has_hours_of_its_own() -> None:
    others = [
        replace(FIRST, id="hour_3", instance_type="cpu-small"),
        replace(FIRST, id="hour_4", container_id="ctr_2"),
    ]
    assert not list(SlotsOfHours().twice([FIRST, OTHER, *others]))


WAITS = Held("hour_1", "ctr_1", 1, "RUNNING", wanted=True, serves=False, fits=False)


def test_what_runs_may_wait_for_room_for_one_more() -> None:
    assert WAITS.has_a_reason()
    assert replace(WAITS, state="PENDING", fits=True).has_a_reason()
    assert replace(WAITS, fits=True, failed=True).has_a_reason(), "it is tried again, not at once"


@pytest.mark.parametrize(
    "held",
    [
        replace(WAITS, fits=True),
        replace(WAITS, serves=True),
        replace(WAITS, wanted=False),
        replace(WAITS, state="STOPPED"),
        replace(WAITS, state="FAILED"),
        replace(WAITS, state=None),
    ],
)
def test_nothing_else_is_a_reason(held: Held) -> None:
    assert not held.has_a_reason()

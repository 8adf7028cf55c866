"""Which slots have to be paid: one replica, one thing different at a time."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from moorage.containers.paying import has_to_be_paid, slots_that_serve, uses_hour, wanted
from moorage.containers.rollout import FIRST_CANARY_SLOT

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Replica:
    slot: int = 0
    state: str = "routed"
    instance_type: str = "cpu-small"
    unfunded_at: datetime | None = None
    missing_since: datetime | None = None


@pytest.mark.parametrize(
    ("changes", "uses", "pays"),
    [
        ({}, True, True),
        ({"state": "ready"}, True, True),
        ({"state": "requested"}, True, False),
        ({"state": "starting"}, True, False),
        ({"state": "draining"}, False, False),
        ({"state": "stopped"}, False, False),
        ({"instance_type": "h100-80gb"}, False, False),
        ({"unfunded_at": NOW}, False, False),
        ({"missing_since": NOW}, False, False),
    ],
)
def test_one_replica(changes: dict[str, object], uses: bool, pays: bool) -> None:
    one = replace(Replica(), **changes)  # type: ignore[arg-type]
    assert (uses_hour(one, "cpu-small"), has_to_be_paid(one, "cpu-small")) == (uses, pays)
    assert slots_that_serve([one], "cpu-small") == ({0} if pays else set())


def test_what_a_pass_is_about_to_make_of_it_counts() -> None:
    assert has_to_be_paid(Replica(state="starting"), "cpu-small", "ready")
    assert not has_to_be_paid(Replica(), "cpu-small", "draining")


@pytest.mark.parametrize(
    ("desired_state", "suspended", "slots"),
    [("running", False, [0, 1]), ("running", True, []), ("stopped", False, []), ("deleted", False, [])],
)
def test_only_wanted_slots(desired_state: str, suspended: bool, slots: list[int]) -> None:
    asked = wanted(desired_state, 2, suspended=suspended)
    assert [slot for slot in range(4) if asked.includes(slot)] == slots


@pytest.mark.parametrize(
    ("slot", "is_paid"),
    [
        (0, True),
        (1, True),
        (2, False),
        (FIRST_CANARY_SLOT - 1, False),
        (FIRST_CANARY_SLOT, True),
        (FIRST_CANARY_SLOT + 1, False),
    ],
)
def test_a_canary_has_slots_of_its_own(slot: int, is_paid: bool) -> None:
    assert wanted("running", 2, 1, suspended=False).includes(slot) is is_paid


def test_a_canary_that_is_to_go_is_paid_already() -> None:
    assert not wanted("running", 2, 1, suspended=True).includes(FIRST_CANARY_SLOT)
    assert not wanted("running", 2, suspended=False).includes(FIRST_CANARY_SLOT), "there is none"

"""The rules of hours and holds, as tables. What they come to over time: tests/simulation."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.ledger.rules import (
    Coverage,
    Hour,
    Occupied,
    Renewal,
    cover,
    forecast,
    holds_to_release,
    next_hour,
    renewal,
    renewal_lead,
    slots_to_buy,
)

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
TICK = timedelta(minutes=5)
TICKS_PER_HOUR = 12
LEAD_TICKS = 1
PRICE = 3_990_000
TYPE = "h100-80gb"


def held(slot: int, hour_id: str = "h") -> Hour:
    return Hour(hour_id, slot, TYPE, None)


def paid(slot: int, minutes: int, hour_id: str = "p", instance_type: str = TYPE) -> Hour:
    return Hour(hour_id, slot, instance_type, START + timedelta(minutes=minutes))


@pytest.mark.parametrize(
    ("slots", "busy", "hours", "expected"),
    [
        ([0], [], [], Coverage((), (0,))),
        ([0, 1], [], [held(0)], Coverage((), (1,))),
        ([0], [], [paid(0, 5)], Coverage((), ())),
        ([0], [], [paid(0, 0)], Coverage((), (0,), ("p",))),
        ([0], [], [paid(0, 5, instance_type="cpu-nano")], Coverage((), (0,))),
        ([0], [], [paid(1, 5)], Coverage((("p", 0),), ())),
        ([0], [1], [paid(1, 5)], Coverage((), (0,))),
        ([0], [], [paid(1, 5, "a"), paid(2, 9, "b")], Coverage((("b", 0),), ())),
        ([0], [], [held(1)], Coverage((), (0,))),
    ],
    ids=[
        "nothing there",
        "one is held",
        "a restart",
        "its hour is over",
        "an hour of another type",
        "a spare hour",
        "the other slot needs its hour",
        "the longest spare hour",
        "another slot's hold is not spare",
    ],
)
def test_cover(slots: list[int], busy: list[int], hours: list[Hour], expected: Coverage) -> None:
    assert cover(slots, Occupied(frozenset(busy)), hours, TYPE, START) == expected


def test_an_hour_that_is_over_stays_with_what_serves_and_makes_way_for_what_starts() -> None:
    over, spare = paid(0, -5, "over"), paid(1, 5, "spare")
    serving = Occupied(frozenset({0}), frozenset({0}))
    assert cover([0], serving, [over], TYPE, START) == Coverage(), "renewals buy what follows it"
    coming = Occupied(frozenset({0}))
    assert cover([0], coming, [over], TYPE, START) == Coverage((), (0,), ("over",))
    assert cover([0], coming, [over, spare], TYPE, START) == Coverage((("spare", 0),), (), ("over",))
    other = paid(0, -5, "other", instance_type="cpu-nano")
    assert cover([0], coming, [other], TYPE, START).close == ()


@pytest.mark.parametrize(
    ("hours", "newly_ready", "expected"),
    [
        ([], [], (0,)),
        ([held(0)], [], (0,)),
        ([paid(0, 5)], [0], ()),
        ([paid(0, -5)], [], ()),
        ([paid(0, -5)], [0], (0,)),
        ([paid(0, 5, instance_type="cpu-nano")], [], (0,)),
        ([paid(1, 5)], [], (0,)),
    ],
    ids=["none", "held", "paid", "over while it served", "over before", "of another type", "another slot's"],
)
def test_what_serves_is_bought(hours: list[Hour], newly_ready: list[int], expected: tuple[int, ...]) -> None:
    assert slots_to_buy([0], newly_ready, hours, TYPE, START) == expected


def test_holds_go_back_when_their_slot_is_not_wanted() -> None:
    hours = [held(0, "a"), held(1, "b"), paid(2, 5)]
    assert holds_to_release(hours, {0}, TYPE) == ("b",)
    assert holds_to_release(hours, {0, 1}, "cpu-nano") == ("a", "b")


@pytest.mark.parametrize(
    ("serves", "comes_up", "minutes", "expected"),
    [
        (True, True, 1, Renewal.BUY),
        (True, True, -60, Renewal.BUY),
        (False, True, 1, Renewal.HOLD),
        (False, False, 1, Renewal.WAIT),
        (False, False, 0, Renewal.CLOSE),
    ],
)
def test_renewal(serves: bool, comes_up: bool, minutes: int, expected: Renewal) -> None:
    expires_at = START + timedelta(minutes=minutes)
    assert renewal(serves=serves, comes_up=comes_up, expires_at=expires_at, now=START) == expected


def test_what_nobody_accounted_for_is_not_made_up() -> None:
    assert next_hour(START + TICK, START, HOUR) == (START + TICK, START + TICK + HOUR)
    assert next_hour(START - 5 * HOUR, START, HOUR) == (START, START + HOUR)


def test_the_lead_leaves_time_to_drain_and_shrinks_with_short_hours() -> None:
    assert renewal_lead(3600, 30) == timedelta(seconds=60)
    assert renewal_lead(30, 30) == timedelta(seconds=10)


def test_forecast() -> None:
    running = [(3_200_000, START + timedelta(minutes=30)), (800_000, START + timedelta(minutes=10))]
    # 9.00 USD: two rounds of 4.00 and then the renewal of the cheap slot, not that of the dear one.
    found = forecast(9_000_000, running, 12_800_000, START, HOUR)
    assert (found.burn_now_microusd, found.burn_maximum_microusd) == (4_000_000, 12_800_000)
    assert found.runs_out_at == START + timedelta(hours=2, minutes=30)
    assert forecast(5, [], 7, START, HOUR).runs_out_at is None
    assert forecast(10**18, running, 0, START, HOUR).runs_out_at is None, "later than there are dates"


@given(
    st.integers(0, 10**8),
    st.lists(st.tuples(st.integers(1, 10**7), st.integers(-30, 59)), min_size=1, max_size=6),
)
def test_forecast_is_when_the_money_ends(available: int, slots: list[tuple[int, int]]) -> None:
    running = [(price, START + timedelta(minutes=minutes)) for price, minutes in slots]
    ends = sorted((max(until, START), price) for price, until in running)
    left = available
    for number in range(10**4):
        ends_at, price = ends[number % len(ends)]
        if price > left:
            expected = ends_at + number // len(ends) * HOUR
            break
        left -= price
    else:
        return  # further than it is worth walking
    assert forecast(available, running, 0, START, HOUR).runs_out_at == expected

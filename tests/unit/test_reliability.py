"""How reliable a machine is: by the hours that it was there, and by those that it was lost."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.machines.reliability import (
    WINDOW,
    Day,
    Presence,
    StateChange,
    Tier,
    condensed,
    days_of,
    presence,
    reliability,
    tier,
)
from moorage.machines.states import MachineState

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
P, A, L = MachineState.PROBATION, MachineState.ACTIVE, MachineState.LOST
states = st.sampled_from(
    [(P, None), (A, None), (L, A), (MachineState.PAUSED, None), (L, MachineState.PAUSED)]
)


def hours(there: float, lost: float = 0.0) -> Presence:
    return Presence(timedelta(hours=there), timedelta(hours=lost))


@pytest.mark.parametrize(
    ("seen", "value", "its_tier"),
    [
        (hours(0), 0.95, Tier.PROBATION),
        (hours(13.3), 0.96997, Tier.PROBATION),
        (hours(13.4), 0.97006, Tier.STANDARD),
        (hours(499), 0.99807, Tier.STANDARD),
        (hours(500), 0.99808, Tier.TRUSTED),
        (hours(600, 0.2), 0.99516, Tier.TRUSTED),
        (hours(600, 0.3), 0.99356, Tier.STANDARD),
        (hours(100, 5), 0.7, Tier.PROBATION),
    ],
)
def test_table(seen: Presence, value: float, its_tier: Tier) -> None:
    assert reliability(seen) == pytest.approx(value, abs=0.00005)
    assert tier(seen) is its_tier


def change(hours_ago: float, state: MachineState, before: MachineState | None = None) -> StateChange:
    return StateChange(NOW - timedelta(hours=hours_ago), state, before)


def test_what_is_announced_costs_nothing() -> None:
    changes = [
        change(10, P),
        change(8, MachineState.PAUSED),
        change(6, MachineState.DRAINING),
        change(5, L, MachineState.DRAINING),
        change(4, P),
        change(3, L, P),
        change(2, A),
        change(1, MachineState.BANNED),
    ]
    assert presence(changes, NOW) == hours(4, 1)


def test_what_was_long_ago_is_forgotten() -> None:
    assert presence([change(900, A), change(800, L, A), change(740, A)], NOW) == Presence(WINDOW, timedelta())
    assert presence([], NOW) == hours(0)


@given(st.lists(st.tuples(st.floats(0, 2000), states), max_size=12))
def test_any_history(history: list[tuple[float, tuple[MachineState, MachineState | None]]]) -> None:
    changes = sorted((change(ago, *state) for ago, state in history), key=lambda one: one.at)
    seen = presence(changes, NOW)
    assert seen.there >= timedelta()
    assert seen.lost >= timedelta()
    assert seen.there + seen.lost <= WINDOW
    assert 0 < reliability(seen) < 1
    worse = Presence(seen.there, seen.lost + timedelta(hours=1))
    better = Presence(seen.there + timedelta(hours=1), seen.lost)
    assert reliability(worse) < reliability(seen) < reliability(better)


def test_each_day_says_what_it_was() -> None:
    """Midnight of UTC is 12 hours ago."""
    changes = [
        change(60, MachineState.VERIFYING),
        change(58, P),
        change(40, MachineState.PAUSED),
        change(38, L, MachineState.PAUSED),
        change(37, A),
        change(13, L, A),
        change(10, A),
    ]
    days = days_of(changes, NOW)
    assert [one.day.isoformat() for one in (days[0], days[-1])] == ["2026-10-20", "2026-11-18"]
    assert len(days) == WINDOW.days
    hour = timedelta(hours=1)
    assert days[:-3] == [Day(one.day) for one in days[:-3]], "it had not joined"
    assert [(one.there / hour, one.away / hour, one.lost / hour) for one in days[-3:]] == [
        (19, 3, 0),
        (23, 0, 1),
        (10, 0, 2),
    ]


@given(
    st.lists(
        st.tuples(st.floats(0, 40 * 24), st.one_of(states, st.just((MachineState.BANNED, None)))), max_size=12
    )
)
def test_days_add_up_to_what_reliability_follows_from(
    found: list[tuple[float, tuple[MachineState, MachineState | None]]],
) -> None:
    changes = [change(ago, *state) for ago, state in sorted(found, key=lambda one: -one[0])]
    days = days_of(changes, NOW)
    seen = presence(changes, NOW)
    # The first of the days began after the window did, by as much of a day as today lacks.
    rest = timedelta(hours=12)
    for of_days, of_window in (("there", seen.there), ("lost", seen.lost)):
        total = sum((getattr(one, of_days) for one in days), timedelta())
        assert timedelta() <= of_window - total <= rest
    assert all(one.there + one.away + one.lost <= timedelta(days=1) for one in days)


@given(
    st.lists(
        st.tuples(st.floats(0, 29 * 24), st.one_of(states, st.just((MachineState.BANNED, None)))), max_size=40
    )
)
def test_condensed_days_are_the_same(
    found: list[tuple[float, tuple[MachineState, MachineState | None]]],
) -> None:
    changes = [change(ago, *state) for ago, state in sorted(found, key=lambda one: -one[0])]
    told = condensed(changes)
    assert days_of(told, NOW) == days_of(changes, NOW)
    assert presence(told, NOW) == presence(changes, NOW)
    assert told[-1:] == changes[-1:]
    assert condensed(told) == told
    assert [one.at for one in told] == sorted({one.at for one in told})


def test_a_month_of_coming_and_going_is_short() -> None:
    changes = [change(720 - number / 20, *((L, A) if number % 2 else (A, None))) for number in range(14_400)]
    assert len(condensed(changes)) <= 4 * 31 + 1

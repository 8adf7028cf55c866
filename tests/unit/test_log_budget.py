"""Beyond the budget the oldest lines go, and no more of them than needed."""

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from moorage.telemetry.logs.budget.plan import CUT_TO, DayVolume, Drop, plan_drops, volume_of

MONDAY = date(2026, 5, 4)
TUESDAY, WEDNESDAY = MONDAY + timedelta(days=1), MONDAY + timedelta(days=2)


def test_nothing_within_the_budget() -> None:
    assert plan_drops([DayVolume(MONDAY, 1000, 10)], 1000) == []
    assert plan_drops([], 1000) == []


def test_whole_days_and_then_a_part() -> None:
    days = [DayVolume(WEDNESDAY, 500, 5), DayVolume(MONDAY, 500, 5), DayVolume(TUESDAY, 1000, 100)]
    assert plan_drops(days, 1000) == [Drop(MONDAY, 5), Drop(TUESDAY, 55)]


def test_an_empty_line_is_not_free() -> None:
    assert volume_of(["", "abc"]) == 603


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**6)), max_size=9),
    st.integers(2**20, 2**31),
)
def test_what_stays_is_within_it_and_new(volumes: list[tuple[int, int]], budget: int) -> None:
    days = [
        DayVolume(MONDAY + timedelta(days=number), lines * 300 + text, lines)
        for number, (text, lines) in enumerate(volumes)
    ]
    drops = {drop.day: drop.lines for drop in plan_drops(days, budget)}
    kept = [day.bytes * (1 - drops.get(day.day, 0) / day.lines) for day in days]
    assert sum(kept) <= budget
    if drops:
        biggest_line = max(day.bytes / day.lines for day in days)
        assert sum(kept) >= budget * CUT_TO - biggest_line - 1
        newest = max(drops)
        assert all(drops.get(day.day) == day.lines for day in days if day.day < newest)

"""How often a start may fail, and when the next one may be made."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.containers.start_limit import (
    WINDOW,
    allowance_spent,
    start_again_at,
    start_limit,
    wait_for_pace_s,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
ages_s = st.lists(st.integers(min_value=0, max_value=3600), max_size=20)


@given(ages_s, st.integers(min_value=1, max_value=10))
def test_never_more_than_so_many_within_an_hour(ages: list[int], per_hour: int) -> None:
    failed_at = [NOW - timedelta(seconds=age) for age in ages]
    until = start_again_at(failed_at, per_hour)
    if len(failed_at) < per_hour:
        assert until is None
        return
    assert until is not None
    counted = [at for at in failed_at if until - WINDOW < at <= until]
    assert len(counted) < per_hour, "at that moment one more is within the limit"
    just_before = until - timedelta(microseconds=1)
    assert len([at for at in failed_at if just_before - WINDOW < at]) >= per_hour, "and not a moment sooner"


def test_the_sentence_says_when() -> None:
    verdict = start_limit(6, NOW)
    assert verdict.reason == "start_limit"
    assert "at 12:00:00 UTC" in verdict.message


@pytest.mark.parametrize(
    ("now", "until"),
    [
        (NOW, datetime(2026, 1, 2, tzinfo=UTC)),
        (datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)),
        (datetime(2026, 1, 1, 23, tzinfo=timezone(timedelta(hours=-5))), datetime(2026, 1, 3, tzinfo=UTC)),
    ],
)
def test_the_allowance_comes_back_with_the_next_day(now: datetime, until: datetime) -> None:
    assert allowance_spent(19_999_999, 20_000_000, now) is None
    spent = allowance_spent(20_000_000, 20_000_000, now)
    assert spent is not None
    assert (spent.until, spent.verdict.reason) == (until, "start_limit")
    assert f"Replicas can start again at {until:%Y-%m-%d} 00:00 UTC" in spent.verdict.message


@pytest.mark.parametrize(
    ("ages", "wait_s"),
    [
        ([], None),
        ([1.0, 2.0], None),
        ([1.0, 2.0, 61.0], None),
        ([1.0, 2.0, 10.0], 50),
        ([1.0, 2.0, 59.9], 1),
        ([1.0, 2.0, 3.0, 30.0], 57),
    ],
)
def test_starts_that_somebody_asks_for_have_a_pace(ages: list[float], wait_s: int | None) -> None:
    assert wait_for_pace_s(ages, 3) == wait_s

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kit.errors import InvalidInputError
from moorage.telemetry.steps import LONGEST_RANGE, ROUND_STEPS_S, steps_for

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def test_round_steps_on_round_times() -> None:
    steps = steps_for(NOON + timedelta(seconds=7), NOON + timedelta(hours=1, seconds=7), 60)
    assert (steps.first, steps.step_s, steps.count) == (NOON, 120, 31)
    assert steps.end == NOON + timedelta(minutes=62)


@given(
    st.timedeltas(timedelta(days=-9000), timedelta(days=9000)).map(lambda away: NOON + away),
    st.timedeltas(timedelta(microseconds=1), LONGEST_RANGE),
    st.integers(16, 500),
)
def test_the_range_is_covered_by_no_more_steps_than_asked_for(
    from_time: datetime, length: timedelta, at_most: int
) -> None:
    to_time = from_time + length
    steps = steps_for(from_time, to_time, at_most)
    assert steps.first <= from_time < steps.first + timedelta(seconds=steps.step_s)
    assert steps.end - timedelta(seconds=steps.step_s) < to_time <= steps.end
    assert steps.count <= at_most
    assert steps.step_s in ROUND_STEPS_S
    assert steps.index_of(from_time) == 0
    assert steps.index_of(to_time - timedelta(microseconds=1)) == steps.count - 1
    assert len(steps.times) == steps.count


@pytest.mark.parametrize(
    "length", [timedelta(0), timedelta(seconds=-1), LONGEST_RANGE + timedelta(seconds=1)]
)
def test_what_is_no_range(length: timedelta) -> None:
    with pytest.raises(InvalidInputError):
        steps_for(NOON, NOON + length, 60)


@pytest.mark.parametrize("year", [1, 1969, 9000, 9999])
def test_times_that_nothing_happened_at(year: int) -> None:
    begin = datetime(year, 1, 1, tzinfo=UTC)
    with pytest.raises(InvalidInputError):
        steps_for(begin, begin + timedelta(days=30), 60)

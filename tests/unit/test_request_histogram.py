import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kit.histogram import GROWTH, add, bucket_of, percentile
from moorage.telemetry.requests.figures import Figures, step_of

durations_ms = st.integers(0, 86_400_000)


def histogram_of(values: list[int]) -> dict[int, int]:
    figures = Figures()
    for value in values:
        figures.count(200, value, value)
    return figures.histogram


@given(st.lists(durations_ms, min_size=1, max_size=300), st.sampled_from([0.0, 0.5, 0.95, 0.99, 1.0]))
def test_percentiles_are_within_five_percent(values: list[int], q: float) -> None:
    exact = sorted(values)[max(1, math.ceil(q * len(values))) - 1]
    found = percentile(histogram_of(values), q)
    assert found is not None
    assert abs(found - exact) <= 0.025 * exact


@given(durations_ms, durations_ms)
def test_buckets_keep_the_order(one_ms: int, other_ms: int) -> None:
    assert (bucket_of(one_ms) <= bucket_of(other_ms)) or one_ms > other_ms


@given(st.lists(durations_ms, max_size=50), st.lists(durations_ms, max_size=50))
def test_histograms_add_up(some: list[int], others: list[int]) -> None:
    together = histogram_of(some)
    add(together, histogram_of(others))
    assert together == histogram_of(some + others)


def test_a_day_fits_into_a_smallint_and_few_buckets() -> None:
    assert bucket_of(86_400_000) < 340
    assert bucket_of(2**62) <= 1000
    assert GROWTH <= 1.05


def test_no_requests_have_no_percentile() -> None:
    assert percentile({}, 0.5) is None
    with pytest.raises(ValueError, match="share"):
        percentile({1: 1}, 95)


@pytest.mark.parametrize(("status", "place"), [(None, 0), (101, 1), (200, 2), (304, 3), (429, 4), (503, 5)])
def test_status_classes(status: int | None, place: int) -> None:
    figures = Figures()
    figures.count(status, 5, None)
    assert figures.statuses == [int(at == place) for at in range(6)]
    assert figures.requests == 1


def test_steps_are_ten_seconds() -> None:
    assert [step_of(at) for at in (0, 9.999, 10, 1794720621.6)] == [0, 0, 10, 1794720620]

"""What requests cost: every micro-dollar of an hour goes to somebody, or is idle."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kit.errors import InvalidInputError
from moorage.telemetry.requests.cost import PaidHour, Share, Span, divide, parts, span_of
from moorage.telemetry.requests.figures import MOST_KEYS, Figures

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
KEYS = st.one_of(st.none(), st.sampled_from(["key_a", "key_b", "key_c"]))
HOURS = st.lists(st.builds(PaidHour, st.integers(1, 10**9), st.dictionaries(KEYS, st.integers(1, 10**6))))


def together(hours: list[PaidHour]) -> Counter[str | None]:
    """Where none of the hours is about the same time as another."""
    return sum((Counter(hour.requests) for hour in hours), Counter())


@pytest.mark.parametrize(
    ("price", "requests", "expected"),
    [
        (3_000_000, {"a": 200, "b": 100}, {"a": 2_000_000, "b": 1_000_000}),
        (100, {"a": 1, "b": 1, "c": 1}, {"a": 34, "b": 33, "c": 33}),
        (5, {"a": 2, None: 1}, {"a": 3, None: 2}),
        (1, {"a": 1, "b": 999}, {"a": 0, "b": 1}),
        (7, {}, {}),
    ],
)
def test_parts(price: int, requests: dict[str | None, int], expected: dict[str | None, int]) -> None:
    assert parts(price, requests) == expected


@given(HOURS)
def test_nothing_is_lost_or_made(hours: list[PaidHour]) -> None:
    division = divide(hours, together(hours))
    assert division.spent_microusd == sum(hour.price_microusd for hour in hours)
    attributed = sum(share.cost_microusd for share in division.keys.values())
    assert attributed + division.idle_microusd == division.spent_microusd
    assert division.hours == len(hours)


def test_idle_hours_are_nobodys() -> None:
    division = divide([PaidHour(100, {"a": 4}), PaidHour(60, {})], {"a": 4})
    assert division.keys == {"a": Share(4, 100)}
    assert (division.idle_hours, division.idle_microusd) == (1, 60)
    assert division.per_request_microusd == 40, "idle hours are paid for the requests that come"
    assert divide([PaidHour(60, {})], {}).per_request_microusd is None


def test_hours_of_several_replicas_are_about_the_same_requests() -> None:
    two = PaidHour(3_000_000, {"a": 200, "b": 100})
    division = divide([two, two], {"a": 200, "b": 100})
    assert division.keys == {"a": Share(200, 4_000_000), "b": Share(100, 2_000_000)}
    assert (division.requests, division.per_request_microusd) == (300, 20_000)


def test_only_what_is_counted_is_divided() -> None:
    assert span_of(NOW, None, None, 7) == Span(NOW - timedelta(days=1), NOW)
    assert span_of(NOW, NOW - timedelta(days=30), NOW + timedelta(days=1), 7) == Span(
        NOW - timedelta(days=7), NOW
    )
    ever = datetime.min.replace(tzinfo=UTC)
    for first, end in (
        (NOW, NOW),
        (NOW - timedelta(days=30), NOW - timedelta(days=20)),
        (None, ever),
        (ever, ever),
    ):
        with pytest.raises(InvalidInputError):
            span_of(NOW, first, end, 7)


def test_keys_of_a_step_are_bounded() -> None:
    figures = Figures()
    for number in range(MOST_KEYS + 5):
        figures.count(200, 10, 1, f"key_{number}")
        figures.count(200, 10, 1, "key_0")
    assert len(figures.keys) == MOST_KEYS
    assert figures.keys["key_0"] == MOST_KEYS + 6
    assert figures.requests == 2 * (MOST_KEYS + 5)

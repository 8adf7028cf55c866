"""Seconds become steps without losing a request."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from moorage.telemetry.metrics.samples import Sample, longer_steps, steps_of_seconds

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


def sample(second: int, in_flight: int, gateway: str = "gtw_a", **changes: int) -> Sample:
    values = {"queued": 0, "requests": 1, "errors": 0, "response_ms": 10} | changes
    return Sample("ctr_a", gateway, START + timedelta(seconds=second), in_flight, **values)


def test_gateways_add_up_and_missing_seconds_are_zeros() -> None:
    (step,) = steps_of_seconds([sample(0, 6), sample(0, 4, "gtw_b"), sample(7, 5)], 10)
    assert (step.at, step.in_flight_mean, step.in_flight_max, step.requests) == (START, 1.5, 10, 3)


def test_steps_begin_where_the_clock_says() -> None:
    found = steps_of_seconds([sample(9, 1), sample(10, 1), sample(61, 1)], 10)
    assert [(step.at - START).total_seconds() for step in found] == [0, 10, 60]


def test_response_times_weigh_by_requests() -> None:
    slow = sample(0, 1, requests=1, response_ms=100)
    quick = sample(1, 1, requests=3, response_ms=20)
    assert steps_of_seconds([slow, quick], 10)[0].response_ms == 40.0
    assert steps_of_seconds([sample(0, 1, requests=0)], 10)[0].response_ms == 0.0


samples = st.lists(
    st.builds(
        lambda second, in_flight, gateway, requests, errors: sample(
            second, in_flight, gateway, requests=requests, errors=errors
        ),
        st.integers(0, 600),
        st.integers(0, 50),
        st.sampled_from(["gtw_a", "gtw_b"]),
        st.integers(0, 100),
        st.integers(0, 5),
    ),
    unique_by=lambda one: (one.at, one.gateway_id),
)


@given(samples)
def test_nothing_is_lost_on_the_way_to_minutes(samples: list[Sample]) -> None:
    steps = steps_of_seconds(samples, 10)
    minutes = longer_steps(steps, 10, 60)
    direct = steps_of_seconds(samples, 60)
    for found in (steps, minutes):
        assert sum(step.requests for step in found) == sum(one.requests for one in samples)
        assert sum(step.errors for step in found) == sum(one.errors for one in samples)
    assert [(step.at, round(step.in_flight_mean, 6), step.in_flight_max) for step in minutes] == [
        (step.at, round(step.in_flight_mean, 6), step.in_flight_max) for step in direct
    ]

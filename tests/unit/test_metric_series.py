from datetime import UTC, datetime, timedelta

from moorage.telemetry.metrics.samples import Step
from moorage.telemetry.metrics.series import ReadyTime, of_requests, of_samples, replica_count
from moorage.telemetry.requests.figures import Figures
from moorage.telemetry.steps import steps_for

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
STEPS = steps_for(NOON, NOON + timedelta(seconds=30), 3)
LATER = NOON + timedelta(hours=1)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def figures(*requests: tuple[int | None, int]) -> Figures:
    found = Figures()
    for status, total_ms in requests:
        found.count(status, total_ms, total_ms // 2 if status else None)
    return found


def test_replicas_are_counted_at_the_end_of_each_step() -> None:
    ready = [
        ReadyTime(at(-5), None),
        ReadyTime(at(5), at(15)),
        ReadyTime(at(10), at(20)),
        ReadyTime(at(25), None),
    ]
    assert replica_count(STEPS, ready, LATER) == [3.0, 1.0, 2.0]
    assert replica_count(STEPS, ready, at(22)) == [3.0, 1.0, 1.0]
    assert replica_count(STEPS, ready, at(12)) == [3.0, 3.0, None]


def test_a_step_that_is_not_over_is_as_long_as_it_lasts() -> None:
    row = Step("ctr_a", at(20), 3.0, 5, 1.0, 40, 0, 12.0)
    assert of_samples(STEPS, [row], LATER) == {
        "request_rate": [0.0, 0.0, 4.0],
        "in_flight": [0.0, 0.0, 3.0],
        "queued": [0.0, 0.0, 1.0],
    }
    # Of the last one, five seconds are known: their means, and not half of them.
    assert of_samples(STEPS, [row], at(25)) == {
        "request_rate": [0.0, 0.0, 8.0],
        "in_flight": [0.0, 0.0, 6.0],
        "queued": [0.0, 0.0, 2.0],
    }
    assert of_samples(STEPS, [], at(20))["in_flight"] == [0.0, 0.0, None]
    assert of_samples(STEPS, [], at(-5))["queued"] == [None, None, None]


def test_response_times_at_every_resolution() -> None:
    known = {at(0): figures((200, 10), (500, 30)), at(10): figures((200, 18))}
    seconds = steps_for(NOON, NOON + timedelta(seconds=25), 30)
    assert seconds.step_s == 1
    series = of_requests(seconds, known, at(20))
    assert series["response_time_p50_ms"] == [10.0] * 10 + [18.0] * 10 + [None] * 5
    assert series["first_byte_p50_ms"] == [5.0] * 10 + [9.0] * 10 + [None] * 5
    # Who counts would count each ten times.
    assert "responses_2xx" not in series
    assert "request_rate" not in series
    tens = of_requests(STEPS, known, at(20))
    assert tens["request_rate"] == [0.2, 0.1, None]
    assert tens["responses_5xx"] == [1.0, 0.0, None]


def test_requests_add_up_and_percentiles_are_of_all_of_them() -> None:
    halves = {
        at(0): figures(*((200, 10) for _ in range(50)), (503, 7)),
        at(10): figures((200, 15), (None, 3)),
    }
    series = of_requests(STEPS, halves, LATER)
    assert series["request_rate"] == [5.1, 0.2, 0.0]
    assert series["response_time_p50_ms"] == [10.0, 3.0, None]
    assert (series["responses_2xx"], series["responses_5xx"]) == ([50.0, 1.0, 0.0], [1.0, 0.0, 0.0])
    assert series["responses_none"] == [0.0, 1.0, 0.0]
    minute = steps_for(NOON, NOON + timedelta(minutes=1), 1)
    assert of_requests(minute, halves, LATER)["responses_2xx"] == [51.0]
    assert of_requests(minute, halves, LATER)["response_time_p95_ms"] == [10.0]

"""Where a request's time went, and what was done for it when: whatever was noted, nothing is missing and nothing counted twice."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from moorage.telemetry.requests.held import Held, Wake
from moorage.telemetry.requests.moments import moments
from moorage.telemetry.requests.phases import awake_phases
from moorage.telemetry.requests.record import Ending, RequestRecord

NOW = datetime(2026, 11, 15, 5, tzinfo=UTC)
REPLICA = "rep_cccccccccccccccccccc"


def record(**changes: object) -> RequestRecord:
    values: dict[str, object] = {
        "request_id": "req_1",
        "project_id": "prj_1",
        "container_id": "ctr_1",
        "key_id": "key_1",
        "replica_id": REPLICA,
        "started_at": NOW,
        "queue_ms": 0,
        "connect_ms": 1,
        "first_byte_ms": 200,
        "total_ms": 1600,
        "status": 200,
        "request_bytes": 1,
        "response_bytes": 2,
        "ended": Ending.COMPLETED,
    }
    return RequestRecord(**(values | changes))  # type: ignore[arg-type]


MS = st.none() | st.integers(0, 100_000)


@given(
    MS, MS, MS, st.integers(0, 100_000), st.sampled_from([None, REPLICA]), st.sampled_from([None, 200, 503])
)
def test_phases_of_a_request_that_waited_for_no_wake_add_up(
    queue_ms: int | None,
    connect_ms: int | None,
    first_byte_ms: int | None,
    total_ms: int,
    replica_id: str | None,
    status: int | None,
) -> None:
    found = awake_phases(
        record(
            queue_ms=queue_ms,
            connect_ms=connect_ms,
            first_byte_ms=first_byte_ms,
            total_ms=total_ms,
            replica_id=replica_id,
            status=status,
        )
    )
    assert all(phase.duration_ms >= 0 for phase in found)
    assert sum(phase.duration_ms for phase in found) == total_ms
    assert len({phase.name for phase in found}) == len(found)


def test_who_ended_it_without_an_answer_is_told() -> None:
    nothing = {"queue_ms": None, "connect_ms": None, "first_byte_ms": None}
    refused = awake_phases(record(**nothing, replica_id=None, status=404))
    assert [phase.what for phase in refused] == ["The gateway answered by itself."]
    left = awake_phases(record(**nothing, status=None))
    assert [phase.name for phase in left] == ["unanswered"]


def test_moments_stand_in_the_order_of_their_times() -> None:
    second = timedelta(seconds=1)
    wake = Wake(
        NOW - 60 * second, NOW + 0.1 * second, NOW + 0.2 * second, NOW + second, NOW + 2 * second, REPLICA
    )
    held = Held(NOW, 2100, 1, 64, REPLICA, None, 0)
    woken = moments(record(first_byte_ms=2200, total_ms=3000), held, wake)
    assert [moment.what for moment in woken] == [
        "request held: the container is asleep",
        "wake asked for",
        f"{REPLICA} placed",
        f"{REPLICA} started",
        f"{REPLICA} answered its health check",
        "sent on",
        "first byte",
        "200, 2 bytes, whole answer sent",
    ]


def test_a_stream_that_was_told_to_wait_had_its_first_byte_from_us() -> None:
    held = Held(NOW, 12_000, 1, 64, REPLICA, None, 1)
    told = [moment.what for moment in moments(record(first_byte_ms=10_000, total_ms=13_000), held, None)]
    assert told[1:3] == ["first byte, a comment to wait", "sent on"]


def test_what_was_not_sent_on_is_not_said_to_be() -> None:
    held = Held(NOW, 600, 1, 64, None, "insufficient_credit", 0)
    refused = record(replica_id=None, first_byte_ms=600, total_ms=600, status=402, ended=Ending.COMPLETED)
    assert [moment.what for moment in moments(refused, held, None)] == [
        "request held: the container is asleep",
        "402, 2 bytes, whole answer sent",
    ]

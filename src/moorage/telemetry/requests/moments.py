"""What Moorage itself did for a request and when, to stand between the lines that its replica printed. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from moorage.telemetry.requests.held import Held, Wake
from moorage.telemetry.requests.record import Ending, RequestRecord


class Teller(StrEnum):
    """By whose clock a moment is."""

    GATEWAY = "gateway"
    CONTROLLER = "controller"


@dataclass(frozen=True)
class Moment:
    at: datetime
    teller: Teller
    what: str


_ENDED = {
    Ending.COMPLETED: "whole answer sent",
    Ending.CLIENT_LEFT: "the client had left",
    Ending.CLIENT_TIMEOUT: "the client was too slow",
    Ending.CONTAINER_CLOSED: "the container closed the connection",
    Ending.CONTAINER_TIMEOUT: "the container sent nothing for too long",
    Ending.UNREACHABLE: "no replica accepted the connection",
    Ending.QUEUE_TIMEOUT: "no replica was free in time",
    Ending.REFUSED: "answered by the gateway itself",
    Ending.CUT_OFF: "its replica was stopped",
    Ending.GATEWAY_FAILED: "the gateway failed",
}


def moments(record: RequestRecord, held: Held | None, wake: Wake | None) -> list[Moment]:
    """In the order of their times; those of a wake are by another clock than the request's."""
    return sorted([*_at_the_gateway(record, held), *_of_the_wake(record, wake)], key=lambda one: one.at)


def _at_the_gateway(record: RequestRecord, held: Held | None) -> Iterator[Moment]:
    asked = " ".join(word for word in (record.method, record.path) if word) or "request"

    def after(ms: int, what: str) -> Moment:
        return Moment(record.started_at + timedelta(milliseconds=ms), Teller.GATEWAY, what)

    yield after(0, f"{asked} held: the container is asleep" if held is not None else f"{asked} arrived")
    if held is not None and held.code is None:
        yield Moment(held.arrived_at + timedelta(milliseconds=held.held_ms), Teller.GATEWAY, "sent on")
    elif held is None and record.replica_id is not None and record.connect_ms is not None:
        yield after((record.queue_ms or 0) + record.connect_ms, f"sent to {record.replica_id}")
    if record.first_byte_ms is not None and record.replica_id is not None:
        # A stream that was told to wait had its first byte from the gateway.
        is_ours = held is not None and record.first_byte_ms < held.held_ms
        yield after(record.first_byte_ms, "first byte, a comment to wait" if is_ours else "first byte")
    status = str(record.status) if record.status is not None else "no answer"
    yield after(record.total_ms, f"{status}, {record.response_bytes:,} bytes, {_ENDED[record.ended]}")


def _of_the_wake(record: RequestRecord, wake: Wake | None) -> Iterator[Moment]:
    if wake is None:
        return
    replica = wake.replica_id or "a replica"
    for at, what in (
        (wake.woken_at, "wake asked for"),
        (wake.requested_at, f"{replica} placed"),
        (wake.started_at, f"{replica} started"),
        (wake.ready_at, f"{replica} answered its health check"),
    ):
        # One that it met the end of had begun before.
        if at is not None and at <= record.started_at + timedelta(milliseconds=record.total_ms):
            yield Moment(at, Teller.CONTROLLER, what)

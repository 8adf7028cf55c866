"""What is known of one request, and its receipt in plain words. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Ending(StrEnum):
    """Who or what ended a request."""

    COMPLETED = "completed"
    CLIENT_LEFT = "client_left"
    CLIENT_TIMEOUT = "client_timeout"
    CONTAINER_CLOSED = "container_closed_connection"
    CONTAINER_TIMEOUT = "container_timeout"
    UNREACHABLE = "container_unreachable"
    QUEUE_TIMEOUT = "queue_timeout"
    REFUSED = "refused"
    """Answered by the gateway itself, without a replica."""
    CUT_OFF = "cut_off"
    """Its replica went, and the time to finish was over."""
    GATEWAY_FAILED = "gateway_failed"


@dataclass(frozen=True)
class RequestRecord:
    request_id: str
    project_id: str
    container_id: str | None
    """None: the key's project has no such container."""
    key_id: str
    replica_id: str | None
    """None: the request reached no replica."""
    started_at: datetime
    queue_ms: int | None
    """Each of these is None where the request ended before."""
    connect_ms: int | None
    first_byte_ms: int | None
    """From the request's first byte to the answer's."""
    total_ms: int
    status: int | None
    """None: the client left before there was an answer."""
    request_bytes: int
    response_bytes: int
    ended: Ending
    retries: int | None = None
    """How often it was sent again before there was an answer. None: nobody noted it."""
    method: str | None = None
    path: str | None = None
    """Below the endpoint's URL, as the client asked for it. Both are None where they are not among those that gateways know
    by name: what a client may have written is not kept."""


def is_error(status: int | None, ended: Ending) -> bool:
    return status is None or status >= 400 or ended is not Ending.COMPLETED


def receipt(record: RequestRecord) -> list[str]:
    """What happened, in the order in which it happened."""
    answered = f"answered with {record.status}" if record.status is not None else "not answered"
    lines = [
        f"The request arrived at {record.started_at:%Y-%m-%d %H:%M:%S.%f}"[:-3]
        + f" UTC and was {answered}; it took {_time(record.total_ms)}."
    ]
    if record.queue_ms:
        lines.append(f"It waited {_time(record.queue_ms)} for a free replica.")
    if record.replica_id is not None:
        connected = f" after {_time(record.connect_ms)}" if record.connect_ms is not None else ""
        reached = "reached" if record.connect_ms is not None else "was sent towards"
        lines.append(f"It {reached} replica {record.replica_id}{connected}.")
    elif record.ended is not Ending.CLIENT_LEFT:
        lines.append(f"It reached no replica: {_refusal(record)}")
    if record.replica_id is not None and record.first_byte_ms is not None:
        lines.append(f"The answer began {_time(record.first_byte_ms)} after the request did.")
    lines.append(_ENDINGS[record.ended])
    lines.append(f"{record.request_bytes:,} bytes came in, {record.response_bytes:,} bytes went out.")
    return lines


_ENDINGS = {
    Ending.COMPLETED: "The whole answer was sent.",
    Ending.CLIENT_LEFT: "The client closed the connection before the answer was complete.",
    Ending.CLIENT_TIMEOUT: "The client was too slow: it neither sent nor took anything for too long.",
    Ending.CONTAINER_CLOSED: "The container closed the connection before its answer was complete. Look at its logs.",
    Ending.CONTAINER_TIMEOUT: "The container sent nothing for too long, and the gateway gave up.",
    Ending.UNREACHABLE: "No replica accepted the connection. Look at the container's state and logs.",
    Ending.QUEUE_TIMEOUT: "All replicas were busy for as long as a request may wait. Raise the number of replicas.",
    Ending.REFUSED: "The gateway sent the whole answer.",
    Ending.CUT_OFF: "Its replica was stopped, and the time to finish was over.",
    Ending.GATEWAY_FAILED: "The gateway failed. Tell the operator of this installation.",
}

_REFUSALS = {
    400: "it was not valid HTTP.",
    404: "the key's project has no such container.",
    408: "it did not arrive in time.",
    413: "its body was larger than the container accepts.",
    429: "there were more requests than the key or its organization may send.",
    503: "the container was not running, or all its replicas were busy and its queue full.",
}


def _refusal(record: RequestRecord) -> str:
    return _REFUSALS.get(record.status or 0, "the gateway answered by itself.")


def _time(ms: int) -> str:
    return f"{ms} ms" if ms < 10_000 else f"{ms / 1000:.1f} s"

"""Where the time of a request went that found its container awake. Pure; one that waited for a wake is in `held.py`."""

from dataclasses import dataclass

from moorage.telemetry.requests.record import RequestRecord


@dataclass(frozen=True)
class Phase:
    name: str
    """`queued`, `connected`, `to_first_byte`, `answering`, `unanswered`; of a request that waited for its container to wake
    also `woken.placed`, `woken.started`, `woken.loaded`, `woken.routed`."""
    duration_ms: int
    what: str


def awake_phases(record: RequestRecord) -> list[Phase]:
    """From its arrival to its end, without a gap: `queued` first, where it is known that it waited at all."""
    found, at_ms = [], 0

    def until(name: str, duration_ms: int, what: str) -> None:
        nonlocal at_ms
        # Nothing may last longer than the whole: HAProxy rounds each of its times by itself.
        duration_ms = min(max(duration_ms, 0), record.total_ms - at_ms)
        found.append(Phase(name, duration_ms, what))
        at_ms += duration_ms

    if record.queue_ms is not None:
        waited = "It waited for a free replica." if record.queue_ms else "A replica was free at once."
        until("queued", record.queue_ms, waited)
    if record.connect_ms:
        until("connected", record.connect_ms, "The gateway connected to the replica.")
    if record.first_byte_ms is None:
        refused = record.replica_id is None and record.status is not None
        until(
            "answering" if refused else "unanswered",
            record.total_ms - at_ms,
            "The gateway answered by itself." if refused else "No answer of the container came.",
        )
        return found
    until(
        "to_first_byte", record.first_byte_ms - at_ms, "The request was read, and the container worked on it."
    )
    until("answering", record.total_ms - at_ms, "The answer was sent.")
    return found

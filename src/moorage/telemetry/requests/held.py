"""A request that waited for its container to wake, phase by phase. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from moorage.telemetry.requests.phases import Phase
from moorage.telemetry.requests.record import RequestRecord

_MS = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Held:
    """What its gateway noted of it."""

    arrived_at: datetime
    held_ms: int
    place: int
    places: int
    replica_id: str | None
    code: str | None
    comments: int


@dataclass(frozen=True)
class Wake:
    """That it waited for. Each moment is None where nobody knows it, or where it did not come."""

    asleep_at: datetime
    woken_at: datetime | None
    requested_at: datetime | None = None
    started_at: datetime | None = None
    ready_at: datetime | None = None
    replica_id: str | None = None
    """The first that served again."""


def phases(record: RequestRecord, held: Held, wake: Wake | None) -> list[Phase]:
    """From its arrival to its end, without a gap. The moments of the wake are of another clock than the request's: none counts
    as before the one that it follows, or as after the end of the wait."""
    in_all = max(record.total_ms, held.held_ms)
    marks: list[tuple[str, datetime | None, str]] = []
    place = f"Held at the gateway, {held.place} of {held.places} places. The key was checked first."
    if wake is not None:
        marks = [
            ("queued", wake.woken_at, place),
            ("woken.placed", wake.requested_at, "A machine was found, and the hour was paid."),
            (
                "woken.started",
                wake.started_at,
                "The image was there or was fetched, and its process started.",
            ),
            ("woken.loaded", wake.ready_at, "Its server came up and answered its health check."),
        ]
    found, at_ms = [], 0
    for name, moment, what in marks:
        if moment is None:
            continue
        until_ms = min(max(round((moment - held.arrived_at) / _MS), at_ms), held.held_ms)
        found.append(Phase(name, until_ms - at_ms, what))
        at_ms = until_ms
    sent_on = "This gateway forwarded it." if held.code is None else f"It was not forwarded: {held.code}."
    found.append(
        Phase("woken.routed" if found else "queued", held.held_ms - at_ms, sent_on if found else place)
    )
    first_byte_ms = record.first_byte_ms
    if first_byte_ms is not None and first_byte_ms > held.held_ms:
        found.append(Phase("to_first_byte", first_byte_ms - held.held_ms, "The container worked on it."))
        found.append(Phase("answering", in_all - first_byte_ms, "The answer was sent."))
    else:
        # A stream that was told to wait had its first byte before the container had anything.
        found.append(Phase("answering", in_all - held.held_ms, "The container worked on it and answered."))
    return found


def told(record: RequestRecord, held: Held, wake: Wake | None, explanation: Sequence[str]) -> list[str]:
    """The receipt with what was before it."""
    slept = ""
    if wake is not None:
        asleep = (wake.woken_at or held.arrived_at) - wake.asleep_at
        slept = f", which had been asleep for {_span(asleep)}"
    lines = [f"It waited {held.held_ms / 1000:.2f} s for the container to wake{slept}."]
    if held.comments:
        lines.append(f"{held.comments} comments kept its stream open meanwhile.")
    for phase in phases(record, held, wake):
        lines.append(
            f"  {phase.name.replace('_', ' ').replace('.', ', ')}: {phase.duration_ms / 1000:.2f} s. {phase.what}"
        )
    first, *rest = explanation
    return [first, *lines, *rest]


def with_replica(record: RequestRecord, held: Held) -> RequestRecord:
    """The gateway's log names whoever held it; the replica that answered is known to that one. How often it was sent again
    from there nobody noted."""
    return replace(record, replica_id=record.replica_id or held.replica_id, retries=None)


def _span(asleep: timedelta) -> str:
    minutes = int(asleep.total_seconds() // 60)
    if minutes < 1:
        return f"{max(int(asleep.total_seconds()), 0)} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"

from dataclasses import dataclass, field

from moorage.telemetry.requests.held import Phase
from moorage.telemetry.requests.record import RequestRecord


@dataclass(frozen=True)
class Request(RequestRecord):
    """All that is known of it."""

    explanation: list[str]
    """What happened, in sentences."""
    held_ms: int | None = None
    """How long it waited for its container to wake; null where it was awake."""
    phases: list[Phase] = field(default_factory=list)
    """Of a request that waited so: where its time went, in order and without a gap."""

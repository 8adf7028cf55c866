from dataclasses import dataclass

from moorage.telemetry.requests.record import RequestRecord


@dataclass(frozen=True)
class Request(RequestRecord):
    """All that is known of it."""

    explanation: list[str]
    """What happened, in sentences."""

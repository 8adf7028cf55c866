"""How much is held for containers that sleep. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class HoldLimits:
    """Of one gateway; each a bound of its own, so that one container's crowd takes no other's places."""

    per_container: int = 128
    """Requests."""
    at_once: int = 2048
    """Requests, of all containers."""
    body_bytes: int = 2**20
    """Of one request. What a longer one has beyond it waits at its client."""
    bytes_at_once: int = 2**27
    """Of all bodies together. Beyond it, bodies wait at their clients."""
    timeout_s: float = 600.0
    """From a request's arrival to its answer, or to its being sent on."""
    comment_after_s: float = 10.0
    """And as often again: a stream that waits hears that it is not forgotten."""

"""How much is held for containers that sleep. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class HoldLimits:
    """Of one gateway; each a bound of its own, so that one container's crowd takes no other's places.

    Of what all share, an organization may have as much as it leaves free: half of it alone, a third of it beside another that
    wants all, and however many crowd in, something is left for the next."""

    per_container: int = 128
    """Requests."""
    at_once: int = 2048
    """Requests, of all containers."""
    body_bytes: int = 2**23
    """Of one request: a prompt with some pictures in it. What a longer one has beyond it waits at its client, and whether that
    client is still there cannot be known: HAProxy does not look for its end behind bytes that it has no room for."""
    bytes_at_once: int = 2**27
    """Of all bodies together, until their containers answer. Beyond it, bodies wait at their clients."""
    own_bytes: int = 2**14
    """Of each body, not counted there: a prompt is kept whole, however much others have sent."""
    timeout_s: float = 600.0
    """From a request's arrival to its answer, or to its being sent on."""
    comment_after_s: float = 10.0
    """And as often again: a stream that waits hears that it is not forgotten."""

"""When a delivery that failed is tried again. Pure."""

from datetime import timedelta

PAUSES = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
"""After the first try, the second, … In all about three days: long enough to fix a receiver over a weekend."""


def pause_after(tries: int) -> timedelta | None:
    """None when it has been tried often enough."""
    return PAUSES[tries - 1] if tries <= len(PAUSES) else None

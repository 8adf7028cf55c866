"""Since when somebody looks at a container. Pure.

A limit in time is a promise to act when it is over, and to let things go well until then. While the controller, its
engine or the database was away, nobody could do either. So each pass notes when the next one is to come; one that comes
much later ends an absence, and every limit of the container counts from there at the earliest.
"""

from datetime import datetime, timedelta

ABSENT_AFTER = timedelta(seconds=15)
"""Longer than a takeover needs: a lease of 10 s and the successor's next try."""
LONGEST_LOOK = timedelta(seconds=300)
"""No pass plans the next one later than this; one that lies further ahead was written by a clock since set back."""


def watched_since(before: datetime | None, next_look_at: datetime | None, now: datetime) -> datetime | None:
    """When the last absence ended; None if there was none. `next_look_at` is what the last pass had planned."""
    if next_look_at is not None and not now - ABSENT_AFTER <= next_look_at <= now + LONGEST_LOOK:
        return now
    return None if before is None else min(before, now)


def counted_from(moment: datetime, watched: datetime | None, now: datetime) -> datetime:
    """From when a limit that began at `moment` counts."""
    if watched is None:
        return moment
    # A moment ahead of us was written before the clock was set back.
    return watched if moment > now else max(moment, watched)

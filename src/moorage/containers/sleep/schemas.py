from datetime import datetime

from pydantic import BaseModel


class Sleep(BaseModel):
    asleep_at: datetime
    woken_at: datetime | None
    """Null while it sleeps."""
    woken_by: str | None
    served_at: datetime | None
    """When a replica was at the endpoint again; null while it wakes, or where it failed to."""
    saved_microusd: int
    """The price of its replicas for as long as it slept and no hour was paid for."""


class Savings(BaseModel):
    """What sleeping saved: hours asleep and not paid for × price."""

    since_midnight_microusd: int
    """UTC."""
    total_microusd: int
    """Of the last 90 days."""
    asleep_s: float
    """In the same time."""
    sleeps: int

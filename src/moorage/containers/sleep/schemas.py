from datetime import datetime

from pydantic import BaseModel


class Sleep(BaseModel):
    asleep_at: datetime
    woken_at: datetime | None
    """Null while it sleeps."""
    woken_by: str | None
    served_at: datetime | None
    """When a replica was at the endpoint again. Null while it wakes or if waking failed."""
    saved_microusd: int
    """The price of its replicas for the time that it slept and no hour was paid."""


class Savings(BaseModel):
    """What sleeping saved: hours asleep and not paid for × price."""

    since_midnight_microusd: int
    """UTC."""
    total_microusd: int
    """Savings of the last 90 days."""
    asleep_s: float
    """Time asleep in the same 90 days."""
    sleeps: int

from datetime import datetime
from typing import Any

from pydantic import BaseModel


class AuditRecord(BaseModel):
    id: str
    at: datetime
    actor: str
    actor_email: str | None
    """Null where it was no person."""
    actor_name: str | None
    """What the API key is called; null where it was no key."""
    action: str
    target: str
    """What it was done to. Its name is in `details`, as it was then."""
    details: dict[str, Any]

from datetime import datetime
from typing import Any

from pydantic import BaseModel


class AuditRecord(BaseModel):
    id: str
    at: datetime
    actor: str
    actor_email: str | None
    action: str
    target: str
    details: dict[str, Any]

"""When a key was used, and from where. Pure."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class KeyUse:
    at: datetime
    """To the minute: a busy key must not cost a write for each request."""
    client_address: str

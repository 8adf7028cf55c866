from datetime import datetime

from pydantic import BaseModel


class Session(BaseModel):
    id: str
    client: str
    """What signed in, as it named itself: a browser's user agent, or `moor on my-laptop`."""
    current: bool
    created_at: datetime
    last_used_at: datetime
    expires_at: datetime


class SessionList(BaseModel):
    items: list[Session]

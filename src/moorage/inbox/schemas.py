from datetime import datetime

from pydantic import BaseModel, ConfigDict

from moorage.kit.moments import Moment


class Notification(BaseModel):
    id: str
    at: datetime
    event: str
    """One of those that webhooks know."""
    title: str
    text: str | None
    """Why, or what to do."""
    project_id: str | None
    container_id: str | None
    """Null where it is about none, or about one that was deleted."""
    unread: bool


class NotificationsRead(BaseModel):
    model_config = ConfigDict(extra="forbid")

    until: Moment
    """`at` of the newest one that was seen."""

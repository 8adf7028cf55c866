from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

EventPattern = Annotated[str, Field(pattern=r"^(\*|[a-z_]+\.(\*|[a-z_]+))$", max_length=64)]
"""`*`, `container.*` or `container.state`."""
Url = Annotated[str, Field(min_length=1, max_length=2048)]
Format = Literal["event", "chat"]
"""`event`: the event itself, for a program. `chat`: `{"text": "…"}`, a sentence, as chats take it."""
Events = Annotated[list[EventPattern], Field(min_length=1, max_length=32)]


class WebhookCreate(BaseModel):
    model_config = ConfigDict(extra="forbid")

    url: Url
    events: Events = ["*"]
    format: Format = "event"
    """`event` sends the event as JSON, signed, to a program. `chat` sends `{"text": "…"}`, a sentence that Slack, Mattermost,
    Rocket.Chat and Google Chat show to people; it stays what it was made as."""


class WebhookPatch(BaseModel):
    model_config = ConfigDict(extra="forbid")

    url: Url | None = None
    events: Events | None = None
    enabled: bool | None = None


class Webhook(BaseModel):
    id: str
    url: str
    events: list[str]
    format: Format
    enabled: bool
    disabled_reason: str | None
    created_by: str
    created_at: datetime


class NewWebhook(Webhook):
    secret: str
    """Shown this once. Receivers check signatures with it, as standardwebhooks.com describes."""


class Delivery(BaseModel):
    id: str
    event: str
    payload: dict[str, Any]
    created_at: datetime
    delivered_at: datetime | None
    next_try_at: datetime | None
    tries: int
    status: int | None
    error: str | None

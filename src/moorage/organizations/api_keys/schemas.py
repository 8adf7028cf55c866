from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

KeyStatus = Literal["active", "disabled", "expired", "revoked"]


RequestsPerMinute = Annotated[int | None, Field(ge=1, le=1_000_000, strict=True)]
"""Limit of requests to endpoints, at
each gateway. The installation's limit for every key also applies."""


class ApiKeyCreate(BaseModel):
    # A misspelt `expires_at` must not become a key that lives for ever.
    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="key", max_length=200)
    scope: Literal["inference", "manage"] = "inference"
    expires_at: datetime | None = None
    requests_per_minute: RequestsPerMinute = None


class ApiKeyPatch(BaseModel):
    """What is not sent stays as it is; `null` means that the key does not expire, or has no limit of its own."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="", max_length=200)
    disabled: bool = False
    expires_at: datetime | None = None
    requests_per_minute: RequestsPerMinute = None


class ApiKeyRotate(BaseModel):
    model_config = ConfigDict(extra="forbid")

    overlap_s: int = Field(default=3600, ge=0, le=7 * 86_400)
    """Seconds that the old key keeps working beside the new one."""


class ApiKey(BaseModel):
    id: str
    project_id: str
    name: str
    scope: Literal["inference", "manage"]
    hint: str
    status: KeyStatus
    message: str | None
    """Why the key is refused and what to do. Null while it works."""
    created_by: str | None
    created_at: datetime
    expires_at: datetime | None
    disabled_at: datetime | None
    revoked_at: datetime | None
    replaces: str | None
    requests_per_minute: int | None
    last_used_at: datetime | None
    """Its last use, to the minute: at an endpoint or at this API."""
    last_used_from: str | None
    """The client's address."""


class ApiKeyCreated(ApiKey):
    key: str
    """The secret. It is shown only here."""

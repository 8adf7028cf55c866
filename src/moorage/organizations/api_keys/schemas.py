from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

KeyStatus = Literal["active", "disabled", "expired", "revoked"]


class ApiKeyCreate(BaseModel):
    # A misspelt `expires_at` must not become a key that lives for ever.
    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="key", max_length=200)
    scope: Literal["inference", "manage"] = "inference"
    expires_at: datetime | None = None


class ApiKeyPatch(BaseModel):
    """What is not sent stays as it is; `expires_at: null` means that the key does not expire."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="", max_length=200)
    disabled: bool = False
    expires_at: datetime | None = None


class ApiKeyRotate(BaseModel):
    model_config = ConfigDict(extra="forbid")

    overlap_s: int = Field(default=3600, ge=0, le=7 * 86_400)
    """For how long the old key works beside the new one."""


class ApiKey(BaseModel):
    id: str
    project_id: str
    name: str
    scope: Literal["inference", "manage"]
    hint: str
    status: KeyStatus
    created_by: str | None
    created_at: datetime
    expires_at: datetime | None
    disabled_at: datetime | None
    revoked_at: datetime | None
    replaces: str | None


class ApiKeyCreated(ApiKey):
    key: str
    """The secret. It is shown here and never again."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Member(BaseModel):
    user_id: str
    email: str
    role: Literal["admin", "user"]
    project_ids: list[str] | None
    """The projects that a `user` joined; null for an `admin`, who is in all of them."""
    joined_at: datetime


class MemberPatch(BaseModel):
    model_config = ConfigDict(extra="forbid")

    role: Literal["admin", "user"] | None = None
    project_ids: list[str] | None = Field(default=None, max_length=1000)
    """All projects that they are in from now on."""
    revoke_keys: bool = True
    """Whether to revoke the API keys that they made in projects that they are no longer in."""


class MemberRemoved(BaseModel):
    user_id: str
    revoked_key_ids: list[str]

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class InvitationCreate(BaseModel):
    model_config = ConfigDict(extra="forbid")

    email: str = Field(max_length=320)
    role: Literal["admin", "user"] = "user"
    project_id: str | None = None
    """Default: the organization's oldest project."""


class Invitation(BaseModel):
    id: str
    email: str
    role: Literal["admin", "user"]
    project_id: str | None
    invited_by: str
    state: Literal["pending", "expired"]
    created_at: datetime
    expires_at: datetime


class InvitationForMe(BaseModel):
    """What the invited person sees before they accept."""

    organization_name: str
    project_name: str | None
    role: Literal["admin", "user"]
    invited_by: str
    expires_at: datetime


class InvitationAccepted(BaseModel):
    organization_id: str
    project_id: str | None

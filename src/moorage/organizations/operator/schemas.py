from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class OrganizationSummary(BaseModel):
    id: str
    name: str
    created_at: datetime
    suspended_at: datetime | None
    deleted_at: datetime | None
    member_count: int
    project_count: int


class UserSummary(BaseModel):
    id: str
    email: str
    is_operator: bool
    created_at: datetime
    organization_ids: list[str]


class OrganizationMember(BaseModel):
    user_id: str
    email: str
    role: Literal["admin", "user"]
    joined_at: datetime


class Suspension(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reason: str = Field(min_length=1, max_length=500)
    """For the organization's audit log."""


class SuspensionState(BaseModel):
    id: str
    suspended_at: datetime | None

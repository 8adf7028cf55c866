from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Organization(BaseModel):
    id: str
    name: str
    role: Literal["admin", "user"]
    created_at: datetime
    suspended_at: datetime | None
    """Since when none of its containers may run. Only the operator can lift that."""


class OrganizationName(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=200)


class ProjectName(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=200)


class Project(BaseModel):
    id: str
    organization_id: str
    name: str
    created_at: datetime

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Organization(BaseModel):
    id: str
    name: str
    role: Literal["admin", "user"]
    created_at: datetime


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


class ApiKeyCreate(BaseModel):
    # A misspelt `expires_at` must not become a key that lives for ever.
    model_config = ConfigDict(extra="forbid")

    name: str = Field(default="key", max_length=200)
    scope: Literal["inference", "manage"] = "inference"
    expires_at: datetime | None = None


class ApiKey(BaseModel):
    id: str
    project_id: str
    name: str
    scope: Literal["inference", "manage"]
    hint: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class ApiKeyCreated(ApiKey):
    key: str
    """The secret. It is shown here and never again."""

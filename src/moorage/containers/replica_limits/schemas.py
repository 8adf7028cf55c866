"""Requests for more replicas, as the API speaks of them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from moorage.containers.schemas import Text
from moorage.containers.spec import MOST_REPLICAS


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ReplicaLimitRequestWrite(_Strict):
    replicas: int = Field(ge=1, le=MOST_REPLICAS)
    """The most that one container of the project may have."""
    note: Text | None = Field(default=None, max_length=1000)


class Decision(_Strict):
    answer: Text | None = Field(default=None, max_length=1000)


class ReplicaLimitRequest(BaseModel):
    id: str
    project_id: str
    container_id: str | None
    replicas: int
    note: str | None
    state: Literal["pending", "approved", "refused", "withdrawn"]
    requested_by: str
    created_at: datetime
    decided_at: datetime | None
    answer: str | None


class OperatorReplicaLimitRequest(ReplicaLimitRequest):
    organization_id: str
    decided_by: str | None
    current_limit: int

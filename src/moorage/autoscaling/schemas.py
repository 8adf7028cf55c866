from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from moorage.containers.spec import MAX_REPLICAS


class ScalingPolicy(BaseModel):
    min_replicas: int
    max_replicas: int
    target_concurrency: int
    scale_down_delay_s: int


class ScaleRequest(BaseModel):
    """What is not sent stays as it is."""

    model_config = ConfigDict(extra="forbid")

    min_replicas: int | None = Field(default=None, ge=1, le=MAX_REPLICAS)
    max_replicas: int | None = Field(default=None, ge=1, le=MAX_REPLICAS)
    target_concurrency: int | None = Field(default=None, ge=1, le=1000)
    scale_down_delay_s: int | None = Field(default=None, ge=0, le=86400)


class ScalingState(BaseModel):
    desired: int
    ready: int
    coming: int
    startup_s: float | None
    """What the newest replicas took to become ready."""


class AutoscalingDecision(BaseModel):
    """It holds until the next one."""

    at: datetime
    replicas_before: int
    replicas: int
    wanted: int
    """What demand needed, whatever the limits."""
    limited_by: str | None
    reason: str
    inputs: dict[str, Any]


class Autoscaling(BaseModel):
    policy: ScalingPolicy | None
    """None: the container has one replica, always."""
    replicas: ScalingState
    items: list[AutoscalingDecision]
    """Newest first."""
    next_cursor: str | None

from datetime import datetime
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from moorage.containers.spec import MOST_REPLICAS


class ScalingPolicy(BaseModel):
    min_replicas: int
    max_replicas: int
    target_concurrency: int
    scale_down_delay_s: int


class ScaleRequest(BaseModel):
    """What is not sent stays as it is."""

    model_config = ConfigDict(extra="forbid")

    min_replicas: int | None = Field(default=None, ge=1, le=MOST_REPLICAS)
    max_replicas: int | None = Field(default=None, ge=1, le=MOST_REPLICAS)
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


class ReplayRequest(ScaleRequest):
    """The policy to try; what is not sent is as it is now."""

    since: AwareDatetime
    forecast: bool = True
    """Whether replicas are asked for before they are needed where the history shows a pattern, as it is done."""


class ReplayFigures(BaseModel):
    replica_hours: float
    hours_bought: int
    """As they are charged: for a slot, for sixty minutes from the first use."""
    cost_microusd: int
    over_target_share: float
    """Of the time: more in flight than the ready replicas are meant to have."""
    changes: int


class ReplayedDecision(BaseModel):
    at: datetime
    replicas: int
    wanted: int
    limited_by: str | None
    reason: str


class Replay(BaseModel):
    since: datetime
    until: datetime
    policy: ScalingPolicy
    startup_s: float | None
    pattern: Literal["hour", "day", "workday", "week"] | None
    """By what the demand repeats, as far as that helped to foresee it; None: nothing was foreseen."""
    as_it_was: ReplayFigures
    replayed: ReplayFigures
    decisions: list[ReplayedDecision]
    """Those of the replay that changed the number, oldest first; the first 500."""

"""Versions as the API speaks of them."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from moorage.containers.drafts.schemas import ChangeRead
from moorage.containers.states import Outcome, Strategy


class Version(BaseModel):
    version: int
    created_at: datetime
    created_by: str
    image: str
    digest: str | None
    """Null until its image was looked up; of a local image, what its engine calls the content."""
    changes: list[ChangeRead]
    """Against the version before it; secrets are masked."""
    strategy: Strategy | None
    """Null where it was started from rest."""
    outcome: Outcome | None
    """Null until it has served or was given up."""
    reason: str | None
    served_s: float
    can_roll_back: bool
    """Whether one can go back to it: it is another than the present one, and its image is known."""
    answers: int | None = None
    """Of the two versions of an update that is under way."""
    errors: int | None = None
    response_p50_ms: float | None = None
    response_p95_ms: float | None = None
    """Of their answers that were no errors."""
    replicas_ready: int | None = None
    """How many of each are at the endpoint."""


class RollbackRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: int = Field(ge=1, le=2**31 - 1)

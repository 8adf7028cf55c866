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
    """Null until its image was looked up. For a local image, the engine's id of its content."""
    changes: list[ChangeRead]
    """The changes from the previous version, with secrets masked."""
    strategy: Strategy | None
    """Null if it was started from rest."""
    outcome: Outcome | None
    """Null until it has served or was given up."""
    reason: str | None
    served_s: float
    can_roll_back: bool
    """Whether you can go back to it: it is not the present version, and its image is known."""
    answers: int | None = None
    """Figures of the two versions of a running update."""
    errors: int | None = None
    response_p50_ms: float | None = None
    response_p95_ms: float | None = None
    """From their answers that were not errors."""
    replicas_ready: int | None = None
    """The number of replicas of each at the endpoint."""


class RollbackRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: int = Field(ge=1, le=2**31 - 1)

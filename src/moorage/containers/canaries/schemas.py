"""Canaries as the API speaks of them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from moorage.containers.rollout import LEAST_SHARE, MOST_SHARE

Share = Annotated[int, Field(ge=LEAST_SHARE, le=MOST_SHARE)]
"""Percentage of the requests."""
PromoteAfter = Annotated[int, Field(ge=60, le=86_400)]
"""Seconds for which it must serve well, with enough requests, before it takes over by itself."""


class CanaryRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    share: Share
    promote_after_s: PromoteAfter | None = None
    """Null: somebody decides. Left out: it stays as it is."""

"""How settings on trial take over, as it lies in the container's row. Pure."""

import math
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from moorage.containers.states import Strategy

LEAST_SHARE, MOST_SHARE = 1, 50
"""Of a canary, in percent. With more it would be the other version that is on trial."""
MOST_CANARY_REPLICAS = 100
"""A gateway has a list of them for each container."""
FIRST_CANARY_SLOT = 1000
"""More than a container has replicas. A canary's have slots of their own, and with them hours of their own."""


@dataclass(frozen=True)
class Rollout:
    strategy: Strategy
    version: int
    """Of the settings on trial."""
    from_version: int
    begun_at: datetime
    """When it was asked for; of a canary that takes over, when it began to."""
    watch_s: float = 0.0
    """How long both serve beside each other."""
    from_generation: int | None = None
    """Of what serves beside them; None where nothing does, or not yet."""
    pinned: dict[str, Any] | None = None
    """The image to take, where it is one that ran before."""
    of_draft: bool = True
    """Otherwise it goes back to a version, and the draft stays as it is."""
    called_off_by: str | None = None
    """Who asked, while both serve, for what was before."""
    share: int | None = None
    """Of a canary: how many of a hundred requests it gets."""
    promote_after_s: float | None = None
    """Of a canary: when it has served well for so long, it takes over. None: somebody decides."""
    promoted_by: str | None = None
    """Who asked for it to take over."""
    serving_since: datetime | None = None
    """Of a canary: when its first replica was at the endpoint."""

    @property
    def watch(self) -> timedelta:
        return timedelta(seconds=self.watch_s)

    @property
    def is_beside(self) -> bool:
        return self.from_generation is not None

    @property
    def is_canary(self) -> bool:
        return self.strategy is Strategy.CANARY

    def replicas_of_canary(self, desired: int) -> int:
        """As many as its share of what the container has for all requests, so that each works as hard as those beside it."""
        share = self.share or LEAST_SHARE
        return min(math.ceil(desired * share / 100), MOST_CANARY_REPLICAS)

    def to_json(self) -> dict[str, Any]:
        since = self.serving_since
        moments = {
            "begun_at": self.begun_at.isoformat(),
            "serving_since": since.isoformat() if since is not None else None,
        }
        return {**asdict(self), **moments}

    @staticmethod
    def from_json(stored: dict[str, Any] | None) -> "Rollout | None":
        if stored is None:
            return None
        values = {**stored, "begun_at": datetime.fromisoformat(stored["begun_at"])}
        if values.get("serving_since") is not None:
            values["serving_since"] = datetime.fromisoformat(values["serving_since"])
        return Rollout(**{**values, "strategy": Strategy(stored["strategy"])})

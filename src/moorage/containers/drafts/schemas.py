"""Drafts as the API speaks of them."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from moorage.containers.canaries.schemas import PromoteAfter, Share
from moorage.containers.schemas import DraftSummary
from moorage.containers.states import Strategy


class _FromTo(BaseModel):
    model_config = ConfigDict(populate_by_name=True)


class ChangeRead(_FromTo):
    field: str
    before: int | str | None = Field(alias="from")
    after: int | str | None = Field(alias="to")


class AmountChange(_FromTo):
    before: int = Field(alias="from")
    after: int = Field(alias="to")


class ApplyRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    strategy: Strategy = Strategy.REPLACE
    share: Share | None = None
    """Of the requests, for a `canary`; that has to have one, and nothing else may."""
    promote_after_s: PromoteAfter | None = None
    """Of a `canary`: when it has served well for so long, it takes over by itself. Null: somebody decides."""

    @model_validator(mode="after")
    def _belongs_to_a_canary(self) -> Self:
        if self.strategy is Strategy.CANARY and self.share is None:
            raise ValueError("A canary needs a share of the requests, from 1 to 50.")
        if self.strategy is not Strategy.CANARY and (self.share or self.promote_after_s):
            raise ValueError("Only a canary takes `share` and `promote_after_s`.")
        return self


class RollingNeeds(BaseModel):
    """What applying it with `rolling` takes, as things are now."""

    beside_at_least: int
    """Replicas of the new version that have to fit beside those that serve; without room for them it goes back."""
    beside_at_most: int
    """Where there is room for so many, the old version stays whole until the new one has proven itself."""
    room_for: int
    """How many fit."""
    cost_microusd: int
    """Of hours that have to be bought for it. Of the same instance type none: both versions use the hours of their slots."""
    available_microusd: int
    watch_s: int
    """How long both serve beside each other."""


class Draft(DraftSummary):
    """Without a draft, `changes` is empty and `saved_at` null."""

    changes: list[ChangeRead]
    price_per_hour_microusd: AmountChange
    """Of one replica."""
    least_cost_per_hour_microusd: AmountChange
    """Of as many replicas as always run."""
    rolling: RollingNeeds

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
    """Percentage of the requests for a `canary`, which needs it. No other strategy takes it."""
    promote_after_s: PromoteAfter | None = None
    """For a `canary`: seconds of serving well after which it takes over by itself. Null: somebody decides."""

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
    """Replicas of the new version that must fit beside those that serve. Without room for them it goes back."""
    beside_at_most: int
    """If there is room for this many, the old version stays whole until the new one has proven itself."""
    room_for: int
    """The number of replicas that fit."""
    cost_microusd: int
    """The cost of hours that must be bought for it. Both versions use the hours of their slots, so for the same instance
    type only replicas beyond those cost something. Of another type, each replica needs an hour."""
    available_microusd: int
    watch_s: int
    """How long both serve side by side."""


class Draft(DraftSummary):
    """Without a draft, `changes` is empty and `saved_at` null."""

    changes: list[ChangeRead]
    price_per_hour_microusd: AmountChange
    """The price of one replica."""
    least_cost_per_hour_microusd: AmountChange
    """The price of as many replicas as always run."""
    rolling: RollingNeeds
    replace_cost_microusd: int
    """The cost of hours that must be bought to apply it with `replace`: none for the same instance type, unless more
    replicas start than have an hour."""

"""Drafts as the API speaks of them."""

from pydantic import BaseModel, ConfigDict, Field

from moorage.containers.schemas import DraftSummary


class _FromTo(BaseModel):
    model_config = ConfigDict(populate_by_name=True)


class ChangeRead(_FromTo):
    field: str
    before: int | str | None = Field(alias="from")
    after: int | str | None = Field(alias="to")


class AmountChange(_FromTo):
    before: int = Field(alias="from")
    after: int = Field(alias="to")


class Draft(DraftSummary):
    """Without a draft, `changes` is empty and `saved_at` null."""

    changes: list[ChangeRead]
    price_per_hour_microusd: AmountChange
    """Of one replica."""
    least_cost_per_hour_microusd: AmountChange
    """Of as many replicas as always run."""

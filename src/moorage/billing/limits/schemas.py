from datetime import date

from pydantic import BaseModel, ConfigDict, Field

HIGHEST_MICROUSD = 10**13
"""Ten million dollars a month."""


class LimitChange(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    limit_microusd: int | None = Field(ge=0, le=HIGHEST_MICROUSD)
    """For each calendar month; null: none."""


class SpendingLimit(BaseModel):
    scope_id: str
    """The organization's id or the project's."""
    name: str
    limit_microusd: int | None
    spent_microusd: int
    """Hours bought in this month."""
    held_microusd: int
    """Set aside for hours of replicas that are not ready yet; within the limit, too."""
    left_microusd: int | None
    """Null where nothing is limited."""


class SpendingLimits(BaseModel):
    month: date
    """Its first day, in UTC."""
    resets_on: date
    organization: SpendingLimit
    projects: list[SpendingLimit]
    """All of them, by name, whether they have a limit or not."""

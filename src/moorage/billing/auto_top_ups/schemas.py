from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class AutoTopUpChange(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    threshold_microusd: int = Field(ge=0, le=2**53)
    """Below this much of available credit, the saved card is charged."""
    amount_microusd: int = Field(ge=0, le=2**53)
    """How much, each time."""
    monthly_cap_microusd: int = Field(ge=0, le=2**53)
    """What is charged automatically in a calendar month (UTC), at most."""


class AutoTopUp(BaseModel):
    state: Literal["off", "on", "waiting", "paused", "capped", "no_card", "suspended"]
    message: str
    """The same in a sentence, and what to do about it."""
    threshold_microusd: int | None = None
    amount_microusd: int | None = None
    monthly_cap_microusd: int | None = None
    charged_this_month_microusd: int = 0
    tries_again_at: datetime | None = None

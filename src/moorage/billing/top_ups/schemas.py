from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class TopUpCreate(_Strict):
    method: Literal["card", "bank_transfer"]
    amount_microusd: int = Field(ge=0, le=2**53)
    transfer: Literal["local", "international"] = "local"


class TopUp(BaseModel):
    id: str
    organization_id: str
    method: Literal["card", "bank_transfer"]
    state: Literal["pending", "confirmed", "expired", "failed"]
    amount_microusd: int
    received_microusd: int | None
    transfer: Literal["local", "international"] | None = None
    reference: str | None = None
    """To be written on the transfer: it says whose money it is."""
    instructions: str | None = None
    """The account to pay to."""
    checkout_url: str | None = None
    """The page where the card is entered."""
    automatic: bool = False
    """With the saved card, because the credit was low."""
    created_at: datetime
    decided_at: datetime | None


class TransferConfirm(_Strict):
    received_microusd: int = Field(ge=0, le=2**53)
    """What arrived, which may be more or less than was announced."""


class CreditCreate(_Strict):
    organization_id: str = Field(max_length=100)
    amount_microusd: int = Field(ge=0, le=2**53)
    reason: str = Field(min_length=3, max_length=300)
    """Shown to the organization."""


class Credit(BaseModel):
    id: str
    at: datetime
    organization_id: str
    amount_microusd: int
    reason: str

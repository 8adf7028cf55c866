from datetime import date, datetime
from typing import Any, Literal

from pydantic import BaseModel

PaymentMethod = Literal["card", "bank_transfer_local", "bank_transfer_international"]


class Billing(BaseModel):
    balance_microusd: int
    """What is available and what is held, together."""
    available_microusd: int
    held_microusd: int
    """Set aside for hours of replicas that are not ready yet."""
    burn_per_hour_microusd: int
    """What the running containers cost per hour."""
    burn_maximum_per_hour_microusd: int
    """The same, with every container at its maximum."""
    runs_out_at: datetime | None
    """When the credit ends if nothing changes; null while nothing runs."""
    forecast: str
    """The same in a sentence."""
    suspended: bool
    initial_credit: str | None
    """What the initial credit waits for, or why none was given, in a sentence. Null once it was given."""
    payment_methods: list[PaymentMethod]
    """How credit can be added here."""
    payment_contact: str
    """Whom to ask about payments."""


class LedgerEntry(BaseModel):
    id: str
    at: datetime
    kind: str
    amount_microusd: int
    """What it added to the credit. Below zero: what it took."""
    description: str
    details: dict[str, Any]
    project_name: str | None
    """For an hour: the project and container that it was bought for, even if they have been deleted."""
    container_name: str | None
    balance_after_microusd: int | None
    """The credit at that time, including what is on hold. Null if `only` leaves entries out."""


class DayBalance(BaseModel):
    day: date
    balance_microusd: int
    """The balance at the day's end in UTC, or now for today."""


class BalanceHistory(BaseModel):
    first: date
    last: date
    items: list[DayBalance]
    """One for each day, oldest first."""


class UsageItem(BaseModel):
    day: date
    project_id: str
    project_name: str | None
    container_id: str
    container_name: str | None
    instance_type: str
    hours: int
    amount_microusd: int


class UsageList(BaseModel):
    first: date
    last: date
    total_microusd: int
    items: list[UsageItem]


class RevenueDay(BaseModel):
    day: date
    usage_microusd: int
    """Revenue from hours that were bought."""
    hours: int
    """The number of those hours."""
    card_microusd: int
    bank_transfer_microusd: int
    granted_microusd: int
    """Credit that was given, not paid for."""
    refunded_microusd: int
    """Refunds and disputes."""


class Revenue(BaseModel):
    first: date
    last: date
    items: list[RevenueDay]

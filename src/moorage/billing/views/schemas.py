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
    """What runs now costs so much an hour."""
    burn_maximum_per_hour_microusd: int
    """The same with every container at its maximum."""
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
    """What it added to the credit; below zero, what it took."""
    description: str
    details: dict[str, Any]
    project_name: str | None
    """Of an hour: the project and the container that it was bought for, also where they are deleted by now."""
    container_name: str | None
    balance_after_microusd: int | None
    """What the credit was then, with what is on hold; null where `only` leaves entries out."""


class DayBalance(BaseModel):
    day: date
    balance_microusd: int
    """At its end, in UTC; of today, now."""


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
    """Hours that were bought: what was earned."""
    hours: int
    """How many those were."""
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

from datetime import datetime
from typing import Literal

from pydantic import BaseModel


class EarningEntry(BaseModel):
    """One movement of what was earned."""

    id: str
    at: datetime
    kind: Literal["earning", "earning_reversed", "earning_restored", "payout"]
    amount_microusd: int
    """Below zero if it was taken back or sent."""
    description: str
    machine_id: str | None
    machine_name: str | None


class Earnings(BaseModel):
    held_microusd: int
    """Earned but not payable yet, because a bank may still take the payment back."""
    payable_microusd: int
    """Can be requested now."""
    requested_microusd: int
    """Requested but not sent yet."""
    paid_microusd: int
    owed_microusd: int
    """Sent, but later taken back by a bank. Later earnings make up for it."""
    next_payable_at: datetime | None
    """When the next part of what is held becomes payable."""
    share_percent: int
    """The owner's percentage of what others pay for an hour."""
    least_payout_microusd: int
    entries: list[EarningEntry]
    """Newest first."""
    next_cursor: str | None = None


class MachineEarnings(BaseModel):
    machine_id: str
    name: str | None
    served_s: int
    """The time served, as gateways saw it."""
    earned_microusd: int
    """What that time earned. Hours paid with given credit, or by the owner, earn nothing."""


class MonthEarnings(BaseModel):
    month: str
    """`2026-11`, in UTC; an hour is of the month that it ended in."""
    served_s: int
    earned_microusd: int
    items: list[MachineEarnings]


class StatementSummary(BaseModel):
    month: str
    state: Literal["open", "issued"]
    """Open until the month is over."""
    number: str | None
    total_microusd: int


class StatementList(BaseModel):
    items: list[StatementSummary]

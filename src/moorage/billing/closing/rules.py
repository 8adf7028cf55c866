"""What stands in the way of deleting an organization, and what goes with it. Pure.

What runs, owes or earns has to be ended first, by whoever can see what that means. What is left then is given up, and whoever
deletes has to say how much that is.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from moorage.kit.money import format_usd

MOST_NAMED = 5
"""Containers that a sentence names; there may be hundreds."""

Code = Literal[
    "suspended",
    "containers",
    "machines",
    "earnings",
    "payout_requested",
    "owed",
    "payment_under_way",
    "saved_card",
]


@dataclass(frozen=True)
class Obstacle:
    code: Code
    message: str
    """What is there, and what to do about it."""


@dataclass(frozen=True)
class Situation:
    suspended: bool
    containers: tuple[str, ...]
    """Their names, also of those that are being deleted."""
    machines: int
    """That it lends and were not removed."""
    has_banned_machine: bool
    """One of them, which its owner cannot remove."""
    unsettled: bool
    """Its machines served in hours that are not settled yet."""
    earned_microusd: int
    """Held or payable, and not asked for."""
    earned_payable_at: datetime | None
    """When the next part of what is held can be sent."""
    payout_requested_microusd: int
    least_payout_microusd: int
    owed_microusd: int
    """Payments that its bank took back, and earnings that were sent and taken back."""
    open_payments: int
    """By card, of which nobody knows yet whether they are paid."""
    has_card: bool
    pending_transfers: tuple[str, ...]
    """Their references."""
    paid_credit_microusd: int
    given_credit_microusd: int

    @property
    def given_up_microusd(self) -> int:
        return self.paid_credit_microusd + self.given_credit_microusd + self.earned_microusd


def obstacles(it: Situation) -> list[Obstacle]:
    found: list[Obstacle] = []

    def stands(code: Code, message: str) -> None:
        found.append(Obstacle(code, message))

    if it.suspended:
        stands("suspended", "The operator has suspended the organization. Ask them first.")
    if it.containers:
        stands(
            "containers",
            f"It has {_named(it.containers)}. Delete those that are left. Those that are being deleted will be gone in a moment.",
        )
    if it.machines:
        banned = " The operator banned one and must remove it: ask them." if it.has_banned_machine else ""
        them = "it" if it.machines == 1 else "them"
        stands("machines", f"It lends {_counted(it.machines, 'machine')}. Remove {them} first.{banned}")
    if it.unsettled:
        stands(
            "earnings",
            "Its machines served in hours that are not settled yet. Try again in about an hour.",
        )
    elif it.earned_microusd >= it.least_payout_microusd:
        until = (
            f" The next part can be sent from {it.earned_payable_at:%Y-%m-%d %H:%M} UTC."
            if it.earned_payable_at
            else ""
        )
        stands(
            "earnings",
            f"Its machines earned {format_usd(it.earned_microusd)} that has not been sent. Ask for a payout first.{until}",
        )
    if it.payout_requested_microusd:
        stands(
            "payout_requested",
            f"A payout of {format_usd(it.payout_requested_microusd)} is under way. Wait until the operator has sent it.",
        )
    if it.owed_microusd:
        stands(
            "owed",
            f"It owes {format_usd(it.owed_microusd)} for payments that were taken back. Ask the operator how to settle that.",
        )
    if it.open_payments:
        stands(
            "payment_under_way",
            f"{_counted(it.open_payments, 'card payment')} may still arrive. Finish paying, or wait until the payment page closes, within a day.",
        )
    if it.has_card:
        stands(
            "saved_card",
            "A card is saved. Remove it under Billing first, so that the payment provider forgets it too.",
        )
    return found


def _named(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:MOST_NAMED])
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{_counted(len(names), 'container')}: {shown}{more}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"

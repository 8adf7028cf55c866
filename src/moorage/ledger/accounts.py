"""The names of accounts, and the kinds of transactions. Pure.

A transaction takes from one account and adds to another. Accounts of our own (`usage`, `card`, …) go below zero
as money comes in through them; an organization's credit never does.
"""

from enum import StrEnum

from moorage.kit.money import MICROUSD_PER_USD

USAGE = "usage"
"""What was earned: hours that were bought."""
CARD = "card"
BANK = "bank"
GRANTS = "grants"
"""Credit that was given, not paid for."""
PAYOUTS = "payouts"
"""What was sent to owners of machines."""
INITIAL_CREDIT_MICROUSD = 20 * MICROUSD_PER_USD


def credit_of(organization_id: str) -> str:
    return f"credit:{organization_id}"


def receivable_of(organization_id: str) -> str:
    """What the organization owes: payments that its bank took back."""
    return f"receivable:{organization_id}"


def earnings_of(organization_id: str) -> str:
    """What the organization's machines earned and it was not sent yet. Below zero where it was sent what was taken back later."""
    return f"earnings:{organization_id}"


class Source(StrEnum):
    """Where credit came from, in the order in which it is spent."""

    GIVEN = "given"
    CARD = "card"
    TRANSFER = "transfer"


def source_of(account: str) -> Source:
    """Of credit that comes from this account. What nobody knows anything about is as good as given."""
    return {CARD: Source.CARD, BANK: Source.TRANSFER}.get(account, Source.GIVEN)


class Kind(StrEnum):
    INITIAL_CREDIT = "initial_credit"
    CREDIT = "credit"
    CARD_TOP_UP = "card_top_up"
    BANK_TRANSFER = "bank_transfer"
    USAGE = "usage"
    REFUND = "refund"
    REFUND_FAILED = "refund_failed"
    """The bank did not take it: what was refunded is with us again."""
    DISPUTE = "dispute"
    DISPUTE_WON = "dispute_won"
    EARNING = "earning"
    """An owner's part of an hour, out of what the hour was bought for."""
    EARNING_REVERSED = "earning_reversed"
    """Taken back: the hour was not paid after all, or not earned."""
    EARNING_RESTORED = "earning_restored"
    """Given again: the bank decided against whoever disputed it."""
    PAYOUT = "payout"


OF_OWNERS = (Kind.EARNING, Kind.EARNING_REVERSED, Kind.EARNING_RESTORED, Kind.PAYOUT)
"""They move what an organization earned, and nothing of its credit."""

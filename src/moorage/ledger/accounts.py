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
INITIAL_CREDIT_MICROUSD = 20 * MICROUSD_PER_USD


def credit_of(organization_id: str) -> str:
    return f"credit:{organization_id}"


def receivable_of(organization_id: str) -> str:
    """What the organization owes: payments that its bank took back."""
    return f"receivable:{organization_id}"


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

"""When a saved card is charged, and when it is left alone. Pure.

Declined cards are tried again an hour and then six hours later; after the third failure in a row nothing happens until an
admin says so again. What was charged in a month never exceeds the cap that they set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

PAUSES = (timedelta(hours=1), timedelta(hours=6))
MOST_FAILURES = len(PAUSES) + 1


class Step(StrEnum):
    CHARGE = "charge"
    ENOUGH = "enough"
    """There is as much credit as was asked for."""
    WAITING = "waiting"
    """The last try failed a while ago."""
    PAUSED = "paused"
    """Too many failed, one after the other."""
    CAPPED = "capped"
    """Another charge would exceed the cap of the month."""
    NO_CARD = "no_card"
    SUSPENDED = "suspended"


@dataclass(frozen=True)
class Policy:
    threshold_microusd: int
    """Below this much of credit that may be spent, the card is charged."""
    amount_microusd: int
    monthly_cap_microusd: int


@dataclass(frozen=True)
class Situation:
    available_microusd: int
    charged_microusd: int
    """Automatically in this month, with what is under way."""
    failures_at: Sequence[datetime]
    """Since the last charge that worked, and since an admin last agreed; oldest first."""
    has_card: bool
    suspended: bool

    @property
    def is_well(self) -> bool:
        """Nothing that an admin could undo by agreeing once more."""
        return self.has_card and not self.failures_at


def next_step(policy: Policy, situation: Situation, now: datetime) -> Step:
    if situation.suspended:
        return Step.SUSPENDED
    if not situation.has_card:
        return Step.NO_CARD
    if len(situation.failures_at) >= MOST_FAILURES:
        return Step.PAUSED
    if situation.available_microusd >= policy.threshold_microusd:
        return Step.ENOUGH
    again_at = tries_again_at(situation.failures_at)
    if again_at is not None and now < again_at:
        return Step.WAITING
    if situation.charged_microusd + policy.amount_microusd > policy.monthly_cap_microusd:
        return Step.CAPPED
    return Step.CHARGE


def tries_again_at(failures_at: Sequence[datetime]) -> datetime | None:
    """None where nothing failed, or too much did."""
    if not 0 < len(failures_at) < MOST_FAILURES:
        return None
    return failures_at[-1] + PAUSES[len(failures_at) - 1]

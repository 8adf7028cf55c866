"""When a version that serves beside the one before it has to go: what it answered, compared. Pure."""

import math
from dataclasses import dataclass, field

from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict
from moorage.kit.histogram import Histogram, percentile

LEAST_ERRORS = 5
"""One failed request of three says nothing about a version."""
SLOW_SHARE = 0.05
"""What is called slow: what takes longer than 95 of 100 answers of the version before it."""
CERTAINTY = 4.0
"""Standard deviations. It is looked at every second, for hours: of two versions that are equally fast, chance ends one of
30,000 looks this way, and looks that follow each other see nearly the same requests."""


@dataclass(frozen=True)
class Figures:
    answers: int = 0
    errors: int = 0
    """Of those: 500 and above, and connections that broke without an answer."""
    took: Histogram = field(default_factory=dict)
    """How long the others took."""

    @property
    def timed(self) -> int:
        return sum(self.took.values())

    def percentile_ms(self, q: float) -> float | None:
        return percentile(self.took, q)

    @property
    def error_percent(self) -> float:
        return 100.0 * self.errors / self.answers if self.answers else 0.0


def errors_above_bound(new: Figures, old: Figures, bound_percent: float) -> Verdict | None:
    """The version before it has the same clients in the same minutes: what fails there too is not the new one's doing."""
    allowed_percent = bound_percent + old.error_percent
    if new.errors < LEAST_ERRORS or new.error_percent <= allowed_percent:
        return None
    compared = f", and {old.error_percent:.1f} % of the version before it" if old.errors else ""
    message = (
        f"{new.error_percent:.1f} % of its {new.answers:,} answers were errors; the bound is {bound_percent:g} %"
        f"{compared}."
    )
    return Verdict(Reason.ERRORS_ABOVE_BOUND, message)


def slower_than_before(
    new: Figures, old: Figures, slower_percent: float, least_answers: int
) -> Verdict | None:
    """Not by a mean, which one answer can move, nor by two percentiles alone, which differ by chance: counted is how many of its
    answers took longer than 95 of 100 of the other version's did and the bound on top. Equally fast, it has 5 of 100 at most."""
    limit_ms = _slow_ms(old, least_answers)
    if limit_ms is None or new.timed < least_answers:
        return None
    limit_ms *= 1 + slower_percent / 100
    expected = SLOW_SHARE * new.timed
    slow = sum(count for bucket, count in new.took.items() if _ms(bucket) > limit_ms)
    if slow <= expected + CERTAINTY * math.sqrt(expected * (1 - SLOW_SHARE)):
        return None
    new_ms, old_ms = (one.percentile_ms(1 - SLOW_SHARE) or 0.0 for one in (new, old))
    message = (
        f"95 of 100 of its {new.timed:,} answers took up to {new_ms:,.0f} ms, and {old_ms:,.0f} ms of the version before "
        f"it; the bound is {slower_percent:g} % more."
    )
    return Verdict(Reason.SLOWER_THAN_BEFORE, message)


def _slow_ms(old: Figures, least_answers: int) -> float | None:
    return old.percentile_ms(1 - SLOW_SHARE) if old.timed >= least_answers else None


def _ms(bucket: int) -> float:
    return percentile({bucket: 1}, 1) or 0.0

"""What a pattern says about the next minutes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from moorage.autoscaling.pattern import LONGEST_LEAD, MINUTE_S, Kind, Pattern

FORECAST_FROM_STARTUP_S = 30
"""Replicas that start faster need no forecast."""
EARLY_S = 30
"""A pattern says of each minute what the one after needs as well: half of that is early enough."""


@dataclass(frozen=True)
class Outlook:
    """The most that is expected from now until a replica asked for now has started."""

    level: float
    at: int
    """The minute that has it, in seconds since the epoch."""
    until: int
    kind: Kind

    @property
    def because(self) -> str:
        return f"{self.level:.1f} in flight expected at {_clock(self.at)}, {_AS[self.kind]},"

    @property
    def no_more(self) -> str:
        return f"No more is expected until {_clock(self.until)}, {_AS[self.kind]}"


_AS = {
    Kind.HOUR: "as in the hours before",
    Kind.DAY: "as on the days before",
    Kind.WORKDAY: "as on such days before",
    Kind.WEEK: "as a week ago",
}


def look_ahead(
    pattern: Pattern, minutes: Sequence[float], second: int, startup_s: float | None
) -> Outlook | None:
    """`minutes` are the means of the minutes that were over at `second`, at most `RECENT`, the newest last."""
    if startup_s is None or startup_s < FORECAST_FROM_STARTUP_S or startup_s > LONGEST_LEAD * MINUTE_S:
        return None
    now = second // MINUTE_S
    today = pattern.today(now, minutes)
    last = int(second + startup_s - EARLY_S) // MINUTE_S
    usual, minute = max((pattern.at(minute), -minute) for minute in range(now, last + 1))
    return Outlook(usual * today, -minute * MINUTE_S, (last + 1) * MINUTE_S, pattern.kind)


def _clock(second: int) -> str:
    hour, minute = divmod(second // 60 % 1440, 60)
    return f"{hour:02}:{minute:02} UTC"

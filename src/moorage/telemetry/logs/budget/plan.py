"""Which lines of a container go when it has more than its budget. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

LINE_OVERHEAD_BYTES = 300
"""What a line takes on disk beside its text: ids, times, two entries in indexes."""
CUT_TO = 0.95
"""Of the budget, so that a container that prints on is not cut again at once."""


@dataclass(frozen=True)
class DayVolume:
    """What is stored of one container from one day."""

    day: date
    bytes: int
    lines: int


@dataclass(frozen=True)
class Drop:
    day: date
    lines: int
    """The oldest of that day."""


def volume_of(texts: Sequence[str]) -> int:
    # Characters, not bytes: nearly all lines are ASCII, and to encode them twice would cost more than it is worth.
    return sum(map(len, texts)) + LINE_OVERHEAD_BYTES * len(texts)


def plan_drops(days: Sequence[DayVolume], budget_bytes: int) -> list[Drop]:
    """The oldest lines, until the rest is within the budget; nothing where it is already."""
    total = sum(day.bytes for day in days)
    if total <= budget_bytes:
        return []
    too_much = total - int(budget_bytes * CUT_TO)
    drops = []
    for day in sorted(days, key=lambda day: day.day):
        if too_much <= 0:
            break
        wanted = -(-day.lines * too_much // day.bytes) if day.bytes else day.lines
        drops.append(Drop(day.day, min(wanted, day.lines)))
        too_much -= day.bytes
    return [drop for drop in drops if drop.lines]

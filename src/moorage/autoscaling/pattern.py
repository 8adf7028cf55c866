"""What repeats in a container's demand: by the hour, the day, or the kind of day. Pure.

A pattern is what minutes of the same place on the clock had before, newer ones counting more. Whether there is one is not
believed but tried: each part of the history is foretold from what came before it, and what the foreseen replicas would have
saved is compared with the rule that foresees nothing, and with the same forecast under a clock that is wrong. A forecast that
does not beat both is none.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

MINUTE_S = 60
HOUR, DAY, WEEK = 60, 1440, 10_080
LEARN_FROM = 14 * DAY
"""Minutes of history."""
LEARN_EVERY_S = 6 * 3600
"""By the clock: whoever learns within the same six hours learns the same."""
LEAST_HISTORY = 2 * DAY
RECENT = 120
"""Minutes: how today compares with what was foretold for it."""
RECENT_BOUNDS = (0.6, 1.6)
LONGEST_LEAD = 45
SPREADS = 0.35
"""Where days differ, more than their mean is expected: by so many times what the forecast was wrong by before."""

PRICE = 0.3
"""A tenth more replicas must keep at least this much of a tenth of demand from a shortage."""
LEAST_WORTH = 0.002
"""Of demand. Where a forecast saves less than this, there is nothing to gain, or it was chance."""
CHANCE = 0.5
"""Under a clock that is wrong it may be worth this much of what it is worth under the right one."""
LEARNT_FIRST = 0.4
"""Of the history, before what is foretold from it counts."""
WON = 0.6
"""Of the days with a shortage, so many must have clearly less of it."""
CLEARLY = 0.8
SOME = 3
"""What replicas cost is summed up over each third minute."""


class Kind(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WORKDAY = "workday"
    WEEK = "week"


_PERIODS = {Kind.HOUR: HOUR, Kind.DAY: DAY, Kind.WORKDAY: 2 * DAY, Kind.WEEK: WEEK}
_BLOCKS = {Kind.HOUR: HOUR, Kind.DAY: DAY, Kind.WORKDAY: DAY, Kind.WEEK: DAY}
"""What is learnt at once: the clock comes round to a minute no earlier than that."""
_KEPT = {Kind.HOUR: 0.9, Kind.DAY: 0.8, Kind.WORKDAY: 0.8, Kind.WEEK: 0.6}
"""How much what was learnt counts against what is new."""

_WRONG_BY_HOURS = (503, 983)
"""Minutes, about a third and two thirds of a day, and no whole hours: what repeats by the hour would not notice those."""
_WRONG_CLOCKS = {
    Kind.HOUR: (20, 40),
    Kind.DAY: _WRONG_BY_HOURS,
    Kind.WORKDAY: _WRONG_BY_HOURS,
    Kind.WEEK: _WRONG_BY_HOURS,
}


@dataclass(frozen=True)
class Demand:
    """A mean for each minute, without gaps."""

    first: int
    """Minutes since the epoch."""
    levels: Sequence[float]

    def at(self, minute: int) -> float:
        """Before the first there was nothing."""
        place = minute - self.first
        return self.levels[place] if 0 <= place < len(self.levels) else 0.0

    def before(self, minute: int) -> "Demand":
        return Demand(self.first, self.levels[: max(minute - self.first, 0)])


@dataclass(frozen=True)
class Pattern:
    kind: Kind
    levels: tuple[float | None, ...]
    """By place on the clock; None where nothing is known, such as weekends before the first."""
    spreads: tuple[float, ...]
    """What they were wrong by before, on average."""
    mean: float
    """Of the whole history."""

    def at(self, minute: int) -> float:
        """What may be expected of a minute on an ordinary day; 0 where nothing is known."""
        place = _place(self.kind, minute)
        level = self.levels[place]
        return level + SPREADS * self.spreads[place] if level is not None else 0.0

    def today(self, until: int, recent: Sequence[float]) -> float:
        """How the last minutes before `until` compare with what is usual for them."""
        known = [
            (level, usual)
            for level, minute in zip(recent, range(until - len(recent), until), strict=True)
            if (usual := self.levels[_place(self.kind, minute)]) is not None
        ]
        return _compared(sum(level for level, _ in known), sum(usual for _, usual in known), self.mean)


def learn(demand: Demand, startup_s: float, target: int) -> Pattern | None:
    """The pattern that would have served best, if any would have served."""
    if len(demand.levels) < LEAST_HISTORY or startup_s > LONGEST_LEAD * MINUTE_S:
        return None
    past = _past(demand, max(math.ceil(startup_s / MINUTE_S), 1), target)
    if past.lost < LEAST_WORTH * past.sums[-1]:
        return None
    best: _Trial | None = None
    for kind in Kind:
        foretold = _foretold(kind, demand)
        trial = _tried(past, foretold, 0)
        if not trial.is_convincing or (best is not None and trial.worth <= best.worth):
            continue
        wrong = _WRONG_CLOCKS[kind]
        if all(_tried(past, foretold, shift).worth <= CHANCE * trial.worth for shift in wrong):
            best = trial
    return best.foretold.pattern(demand) if best is not None else None


def _place(kind: Kind, minute: int) -> int:
    if kind is Kind.HOUR:
        return minute % HOUR
    if kind is Kind.DAY:
        return minute % DAY
    if kind is Kind.WEEK:
        return minute % WEEK
    # The epoch was a Thursday.
    is_weekend = (minute // DAY + 3) % 7 >= 5
    return minute % DAY + DAY * is_weekend


@dataclass(frozen=True)
class _Foretold:
    """For each minute of the history what was known of it before its block began, and what is known in the end."""

    kind: Kind
    levels: list[float | None]
    expected: list[float | None]
    """With the spread."""
    known: list[float | None]
    spreads: list[float]

    def pattern(self, demand: Demand) -> Pattern:
        mean = sum(demand.levels) / len(demand.levels)
        return Pattern(self.kind, tuple(self.known), tuple(self.spreads), mean)


def _foretold(kind: Kind, demand: Demand) -> _Foretold:
    period, block, kept = _PERIODS[kind], _BLOCKS[kind], _KEPT[kind]
    # The minute after counts as well: what begins by the clock is some seconds late on some days.
    levels = [max(pair) for pair in zip(demand.levels, [*demand.levels[1:], demand.levels[-1]], strict=True)]
    found = _Foretold(kind, [], [], [None] * period, [0.0] * period)
    begin = 0
    while begin < len(levels):
        end = min(begin + block - (demand.first + begin) % block, len(levels))
        place = _place(kind, demand.first + begin)
        here = slice(place, place + end - begin)
        before, spreads, new = found.known[here], found.spreads[here], levels[begin:end]
        found.levels.extend(before)
        found.expected.extend(
            usual + SPREADS * spread if usual is not None else None
            for usual, spread in zip(before, spreads, strict=True)
        )
        found.known[here] = [
            level if usual is None else kept * usual + (1 - kept) * level
            for usual, level in zip(before, new, strict=True)
        ]
        found.spreads[here] = [
            0.0
            if usual is None
            else (kept * spread if spread else 0.0) + (1 - kept if spread else 0.5) * abs(level - usual)
            for usual, spread, level in zip(before, spreads, new, strict=True)
        ]
        begin = end
    return found


@dataclass(frozen=True)
class _Past:
    """The scaling of the past without a forecast, minute by minute: replicas asked for are there `lead` minutes later."""

    demand: Demand
    sums: list[float]
    lead: int
    target: int
    replicas: list[int]
    short: list[int]
    """The minutes in which they were too few."""
    lost: float
    """Demand in those."""


def _past(demand: Demand, lead: int, target: int) -> _Past:
    levels, sums = demand.levels, [0.0, *accumulate(demand.levels)]
    begin = lead + 5
    seen = [max(levels[i - lead - 1], (sums[i] - sums[i - 5]) / 5) for i in range(begin, len(levels))]
    replicas = [0] * begin + [_replicas(level, target) for level in seen]
    short = [i for i in range(begin, len(levels)) if _needed(levels[i]) > replicas[i] * target]
    return _Past(demand, sums, lead, target, replicas, short, sum(levels[i] for i in short))


@dataclass(frozen=True)
class _Trial:
    """What the forecast left undone and the rule without it, in the minutes that were foretold, and their replicas."""

    foretold: _Foretold
    demand: float
    lost: float
    lost_without: float
    replicas: float
    replicas_without: float
    days_better: int
    days_alike: int

    @property
    def worth(self) -> float:
        """The share of demand that it keeps from a shortage, less what it costs."""
        if not self.demand or not self.replicas_without:
            return 0.0
        saved = (self.lost_without - self.lost) / self.demand
        return saved - PRICE * (self.replicas / self.replicas_without - 1)

    @property
    def is_convincing(self) -> bool:
        days = self.days_better + self.days_alike
        return self.worth >= LEAST_WORTH and self.days_better >= max(2, WON * days)


def _tried(past: _Past, foretold: _Foretold, shift: int) -> _Trial:
    """With a `shift`, under a clock that is wrong by so many minutes."""
    demand, levels = past.demand, past.demand.levels
    usual_sums = [0.0, *accumulate(level or 0.0 for level in foretold.levels)]
    mean = past.sums[-1] / len(levels)

    def expected(i: int) -> float:
        """Replicas, as foretold when they had to be asked for."""
        usual = foretold.expected[i - shift] if i >= shift else None
        if usual is None:
            return 0
        known = i - past.lead
        begin = max(known - RECENT, shift)
        recent = past.sums[known] - past.sums[begin]
        today = _compared(recent, usual_sums[known - shift] - usual_sums[begin - shift], mean)
        return _replicas(usual * today, past.target)

    begin = next((i for i, level in enumerate(foretold.levels) if level is not None), len(levels)) + shift
    begin = max(begin, past.lead + RECENT, int(len(levels) * LEARNT_FIRST))
    lost, without = dict[int, float](), dict[int, float]()
    for i in past.short:
        if i >= begin:
            day = (demand.first + i) // DAY
            without[day] = without.get(day, 0.0) + levels[i]
            if _needed(levels[i]) > expected(i) * past.target:
                lost[day] = lost.get(day, 0.0) + levels[i]
    some = range(begin, len(levels), SOME)
    better = sum(1 for day, level in without.items() if lost.get(day, 0.0) <= CLEARLY * level)
    return _Trial(
        foretold,
        past.sums[-1] - past.sums[min(begin, len(levels))],
        sum(lost.values()),
        sum(without.values()),
        sum(max(past.replicas[i], expected(i)) for i in some) * SOME,
        sum(past.replicas[i] for i in some) * SOME,
        better,
        len(without) - better,
    )


def _compared(recent: float, usual: float, mean: float) -> float:
    """Drawn towards one by an hour of the mean: a quiet night says little about the morning."""
    low, high = RECENT_BOUNDS
    drawn = mean * HOUR
    return min(max((recent + drawn) / (usual + drawn), low), high) if drawn else 1.0


def _replicas(level: float, target: int) -> int:
    """With about the headroom that `decide` gives."""
    return math.ceil((1.2 * level + 0.75 * math.sqrt(level)) / target)


def _needed(level: float) -> float:
    """A minute's mean hides its swings: one deviation above it is what has to fit."""
    return level + math.sqrt(level)

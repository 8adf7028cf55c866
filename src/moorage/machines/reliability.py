"""How reliable a machine is, by how long it was there and how long it was lost without a word. Pure.

    reliability = (19 + there) / (20 + there + 10 × lost)        in hours, of the last 30 days

A machine that is new has 20 hours at 95 % to its credit, so that the first minute decides nothing. Absence that was announced,
paused or drained, costs nothing. An hour that was lost counts tenfold: what ran there was cut off.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from itertools import zip_longest

from moorage.machines.states import TAKES_REPLICAS, MachineState

WINDOW = timedelta(days=30)
_PRIOR_HOURS = 20.0
_PRIOR = 0.95
_LOST_COUNTS = 10.0
STANDARD = 0.97
TRUSTED = 0.995
TRUSTED_HOURS = 500.0
_HOUR = timedelta(hours=1)


class Tier(StrEnum):
    PROBATION = "probation"
    STANDARD = "standard"
    TRUSTED = "trusted"


@dataclass(frozen=True)
class StateChange:
    at: datetime
    state: MachineState
    before_loss: MachineState | None = None


@dataclass(frozen=True)
class Presence:
    """Of the last 30 days."""

    there: timedelta
    lost: timedelta
    """Without a word. From a machine that was paused or drained before, nobody expected anything."""


@dataclass
class Day:
    """Of UTC. What is missing of it is time in which nobody counted on the machine: it had not joined, or was proving what it has."""

    day: date
    there: timedelta = field(default_factory=timedelta)
    away: timedelta = field(default_factory=timedelta)
    """With a word before: it was paused or drained."""
    lost: timedelta = field(default_factory=timedelta)


class _Counts(StrEnum):
    THERE = "there"
    AWAY = "away"
    LOST = "lost"


_TOLD_AS: dict[_Counts | None, tuple[MachineState, MachineState | None]] = {
    None: (MachineState.VERIFYING, None),
    _Counts.AWAY: (MachineState.PAUSED, None),
    _Counts.THERE: (MachineState.PROBATION, None),
    _Counts.LOST: (MachineState.LOST, MachineState.PROBATION),
}
"""In the order in which a day is told: what was lost counts for as long as any of its day does."""


def presence(changes: Sequence[StateChange], now: datetime) -> Presence:
    """`changes` in the order of their times; what happened before the first is not known, and counts as nothing."""
    sums = dict.fromkeys(_Counts, timedelta())
    for counts, begin, end in _spans(changes, now - WINDOW, now):
        if counts is not None:
            sums[counts] += end - begin
    return Presence(sums[_Counts.THERE], sums[_Counts.LOST])


def days_of(changes: Sequence[StateChange], now: datetime) -> list[Day]:
    """The last 30, the oldest first and today last."""
    today = now.astimezone(UTC).date()
    days = {day: Day(day) for day in (today - timedelta(days=ago) for ago in range(WINDOW.days - 1, -1, -1))}
    for counts, begin, end in _spans(changes, datetime.combine(min(days), time(), UTC), now):
        if counts is not None:
            for day, passed in _by_day(begin, end):
                setattr(days[day], counts, getattr(days[day], counts) + passed)
    return list(days.values())


def condensed(changes: Sequence[StateChange]) -> list[StateChange]:
    """The same days, told with at most four changes each, and the last one as it is: whoever pauses and resumes all day, or comes
    and goes, has no longer a history than others."""
    if not changes:
        return []
    *_, last = changes
    days = defaultdict[date, dict[_Counts | None, timedelta]](lambda: dict.fromkeys(_TOLD_AS, timedelta()))
    for counts, begin, end in _spans(changes, changes[0].at, last.at):
        for day, passed in _by_day(begin, end):
            days[day][counts] += passed
    told, at = list[StateChange](), changes[0].at
    for amounts in days.values():
        for counts, passed in amounts.items():
            if passed and not (told and _counts(told[-1]) == counts):
                told.append(StateChange(at, *_TOLD_AS[counts]))
            at += passed
    return [*told, last]


def _spans(
    changes: Sequence[StateChange], since: datetime, now: datetime
) -> Iterator[tuple[_Counts | None, datetime, datetime]]:
    for change, after in zip_longest(changes, changes[1:]):
        begin, end = max(change.at, since), after.at if after is not None else now
        if begin < end:
            yield _counts(change), begin, end


def _by_day(begin: datetime, end: datetime) -> Iterator[tuple[date, timedelta]]:
    """How much of each day of UTC."""
    while begin < end:
        day = begin.astimezone(UTC).date()
        until = min(end, datetime.combine(day + timedelta(days=1), time(), UTC))
        yield day, until - begin
        begin = until


def _counts(change: StateChange) -> _Counts | None:
    """None: nobody counted on it."""
    if change.state in TAKES_REPLICAS:
        return _Counts.THERE
    if change.state is MachineState.LOST and change.before_loss in TAKES_REPLICAS:
        return _Counts.LOST
    expected = change.before_loss if change.state is MachineState.LOST else change.state
    return _Counts.AWAY if expected in (MachineState.PAUSED, MachineState.DRAINING) else None


def reliability(seen: Presence) -> float:
    there, lost = seen.there / _HOUR, seen.lost / _HOUR
    return (_PRIOR * _PRIOR_HOURS + there) / (_PRIOR_HOURS + there + _LOST_COUNTS * lost)


def tier(seen: Presence) -> Tier:
    value = reliability(seen)
    if value >= TRUSTED and seen.there / _HOUR >= TRUSTED_HOURS:
        return Tier.TRUSTED
    return Tier.STANDARD if value >= STANDARD else Tier.PROBATION

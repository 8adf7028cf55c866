"""What the owner of a machine earns with an hour that somebody bought. Pure.

An hour belongs to a slot. Each moment of it is paid to one replica that gateways saw serve in the slot then: of two, to the one
that came first. So the moments that are paid never add up to more than was bought, whatever gateways report and however often.
Money that was given, that a bank took back, or that the owner paid to themselves earns nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Void(StrEnum):
    """Why something that was served is worth nothing."""

    RELATED = "related"
    """Owner and buyer have a member or a card in common, or asked to be paid at one account."""
    PROOF_FAILED = "proof_failed"
    """The machine is not what its owner says it is."""
    BY_OPERATOR = "operator"


MICROSECOND = timedelta(microseconds=1)
Interval = tuple[datetime, datetime]


@dataclass(frozen=True)
class Stay:
    """An hour's time in one slot."""

    slot: int
    begins_at: datetime
    ends_at: datetime


@dataclass(frozen=True)
class Span:
    """A time in which one gateway saw a replica serve."""

    replica_id: str
    machine_id: str
    owner_organization_id: str
    slot: int
    began_at: datetime
    ended_at: datetime


@dataclass(frozen=True)
class Served:
    """By one replica, within an hour."""

    replica_id: str
    machine_id: str
    owner_organization_id: str
    microseconds: int


@dataclass(frozen=True)
class Fund:
    """A part of an hour's price: a stretch of a payment, of which the end may have been taken back."""

    source: str
    begins_microusd: int
    amount_microusd: int
    good_until_microusd: int

    @property
    def good_microusd(self) -> int:
        return max(
            min(self.begins_microusd + self.amount_microusd, self.good_until_microusd) - self.begins_microusd,
            0,
        )


@dataclass(frozen=True)
class Parts:
    """Of an amount: by card, and by bank transfer. Given credit is in neither."""

    card_microusd: int = 0
    transfer_microusd: int = 0

    @property
    def total_microusd(self) -> int:
        return self.card_microusd + self.transfer_microusd


def stays_of(
    slot: int, begins_at: datetime, ends_at: datetime, moves: Sequence[tuple[datetime, int]]
) -> list[Stay]:
    """Where an hour was: `moves` are when it left which slot, the first one first; `slot` is where it was last."""
    stays, since = [], begins_at
    for moved_at, from_slot in moves:
        until = min(max(moved_at, since), ends_at)
        stays.append(Stay(from_slot, since, until))
        since = until
    return [*stays, Stay(slot, since, ends_at)]


def served_in(stays: Sequence[Stay], spans: Iterable[Span], length: timedelta) -> list[Served]:
    """What each replica is paid for. No more than `length` in all: an hour that paused lasts longer than it is."""
    by_replica: dict[str, list[Span]] = {}
    for span in sorted(spans, key=lambda span: (span.began_at, span.replica_id)):
        by_replica.setdefault(span.replica_id, []).append(span)
    taken: list[Interval] = []
    left = length // MICROSECOND
    found = []
    for replica_id, its in by_replica.items():
        mine = [
            (max(span.began_at, stay.begins_at), min(span.ended_at, stay.ends_at))
            for span in its
            for stay in stays
            if span.slot == stay.slot
        ]
        free = without(union(mine), taken)
        microseconds = min(sum((end - begin) // MICROSECOND for begin, end in free), left)
        left -= microseconds
        taken = union([*taken, *free])
        if microseconds > 0:
            found.append(Served(replica_id, its[0].machine_id, its[0].owner_organization_id, microseconds))
    return found


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time, each moment of it once. What ends before it begins is none."""
    merged: list[Interval] = []
    for begin, end in sorted(one for one in intervals if one[0] < one[1]):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def without(intervals: Sequence[Interval], taken: Sequence[Interval]) -> list[Interval]:
    """What is left of them. Both are unions."""
    left = []
    for begin, end in intervals:
        for taken_begin, taken_end in taken:
            if taken_begin >= end or taken_end <= begin:
                continue
            if begin < taken_begin:
                left.append((begin, taken_begin))
            begin = max(begin, taken_end)
        if begin < end:
            left.append((begin, end))
    return left


def good_parts(funds: Iterable[Fund]) -> Parts:
    """Of an hour's price, what was paid with somebody's own money and not taken back."""
    good = {"card": 0, "transfer": 0, "given": 0}
    for fund in funds:
        good[fund.source] += fund.good_microusd
    return Parts(good["card"], good["transfer"])


def earned(good: Parts, microseconds: int, length_us: int, share_percent: int) -> Parts:
    """The share of what was paid, for the part of the hour that was served. Rounded down, so that all of an hour's
    owners together never get more than the share of it."""

    def share(amount_microusd: int) -> int:
        return amount_microusd * share_percent * microseconds // (100 * length_us)

    return Parts(share(good.card_microusd), share(good.transfer_microusd))

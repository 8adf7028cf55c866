"""What is held, bought and renewed, and what it comes to. Pure.

An hour belongs to a slot of a container. Whatever runs in the slot while the hour lasts has been paid for, so a
restart or a replacement costs nothing; a slot that has none takes a spare one of the container, and only then
a new one is held. A hold becomes an hour when the replica is ready, and comes back when it is not wanted any more.

An hour is *live* while it is held, or paid and nobody has decided yet what follows it. A slot has one live hour of a
type at most; whatever replaces it closes it first. A live hour that is over (renewals were away) still belongs to what
serves in its slot: renewals buy its successor. Where nothing serves, whoever starts something closes it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

RENEWAL_MARGIN_S = 30.0
"""For the reconcilers themselves: between a renewal that fails and the first second that nobody paid."""


@dataclass(frozen=True)
class Hour:
    """One that is held (then it has no end yet) or paid."""

    id: str
    slot: int
    instance_type: str
    expires_at: datetime | None
    """Of one that pauses: as if it ran again from now on."""
    is_paused: bool = False

    @property
    def is_held(self) -> bool:
        return self.expires_at is None

    def is_over(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at <= now


@dataclass(frozen=True)
class Occupied:
    """The slots of a container that something is in."""

    busy: frozenset[int] = frozenset()
    """They have a replica, whatever it does."""
    serving: frozenset[int] = frozenset()
    """Of those: the replica is ready, and its hour is paid or may yet be."""


@dataclass(frozen=True)
class Coverage:
    """How each slot gets its hour."""

    moves: tuple[tuple[str, int], ...] = ()
    """Spare hours that go over to another slot: (hour, slot)."""
    hold: tuple[int, ...] = ()
    """Slots for which one has to be held."""
    close: tuple[str, ...] = ()
    """Hours that are over and make way for those. Nothing follows them."""


def cover(
    slots: Collection[int],
    occupied: Occupied,
    hours: Sequence[Hour],
    instance_type: str,
    now: datetime,
) -> Coverage:
    """`hours` are the container's live ones. Those of busy slots are not spare."""
    of_type = [hour for hour in hours if hour.instance_type == instance_type]
    usable = [hour for hour in of_type if not hour.is_over(now)]
    covered = {hour.slot for hour in usable}
    covered |= {hour.slot for hour in of_type if hour.is_over(now) and hour.slot in occupied.serving}
    bare = [slot for slot in slots if slot not in covered]
    spare = sorted(
        (
            hour
            for hour in usable
            if not hour.is_held and hour.slot not in occupied.busy and hour.slot not in slots
        ),
        key=lambda hour: (hour.expires_at, hour.id),
        reverse=True,
    )
    moves = tuple((hour.id, slot) for hour, slot in zip(spare, bare, strict=False))
    close = tuple(hour.id for hour in of_type if hour.is_over(now) and hour.slot in bare)
    return Coverage(moves, tuple(bare[len(moves) :]), close)


def slots_to_buy(
    serving: Collection[int],
    newly_ready: Collection[int],
    hours: Sequence[Hour],
    instance_type: str,
    now: datetime,
) -> tuple[int, ...]:
    """Slots that serve and whose hour is not paid: it is held, or missing, or was over when they became ready. What
    served on while its hour ended is for renewals to charge."""
    paid = {
        hour.slot
        for hour in hours
        if hour.instance_type == instance_type
        and not hour.is_held
        and not (hour.slot in newly_ready and hour.is_over(now))
    }
    return tuple(sorted(slot for slot in serving if slot not in paid))


def holds_to_release(
    hours: Sequence[Hour], wanted_slots: Collection[int], instance_type: str
) -> tuple[str, ...]:
    return tuple(
        hour.id
        for hour in hours
        if hour.is_held and (hour.slot not in wanted_slots or hour.instance_type != instance_type)
    )


class Renewal(Enum):
    BUY = auto()
    """The slot serves: the next hour begins when this one ends."""
    HOLD = auto()
    """Something comes up in the slot and may become ready only after this hour."""
    WAIT = auto()
    """Nothing is in the slot, but something may still come and use the rest."""
    CLOSE = auto()
    """It is over, and nothing used it to the end."""


def renewal(*, serves: bool, comes_up: bool, expires_at: datetime, now: datetime) -> Renewal:
    if serves:
        return Renewal.BUY
    if comes_up:
        return Renewal.HOLD
    return Renewal.WAIT if expires_at > now else Renewal.CLOSE


def next_hour(expires_at: datetime, now: datetime, hour: timedelta) -> tuple[datetime, datetime]:
    """Begin and end. What passed unpaid (nobody was there to account for it) is not made up for."""
    begins_at = max(expires_at, now)
    return begins_at, begins_at + hour


def renewal_lead(hour_s: float, drain_limit_s: float) -> timedelta:
    """How long before its end an hour is renewed: enough to drain if that fails. Never more than a third of it."""
    return timedelta(seconds=min(drain_limit_s + RENEWAL_MARGIN_S, hour_s / 3))


@dataclass(frozen=True)
class Forecast:
    burn_now_microusd: int
    """For each hour, with what serves or comes up now."""
    burn_maximum_microusd: int
    """For each hour, with every container scaled to its maximum."""
    runs_out_at: datetime | None
    """When the credit ends at the present burn; None if nothing burns."""


def forecast(
    available_microusd: int,
    running: Sequence[tuple[int, datetime]],
    burn_maximum_microusd: int,
    now: datetime,
    hour: timedelta,
) -> Forecast:
    """`running` is (price, paid until) of every slot that burns.

    Credit ends at the first renewal that it does not cover: hours are bought whole, each when the one before ends.
    """
    burn_now = sum(price for price, _ in running)
    if not running:
        return Forecast(0, burn_maximum_microusd, None)
    # Whole rounds of all slots first; the last round is walked through renewal by renewal.
    rounds = available_microusd // burn_now
    left = available_microusd - rounds * burn_now
    ends = sorted((max(paid_until, now), price) for price, paid_until in running)
    for ends_at, price in ends:
        if price > left:
            return Forecast(burn_now, burn_maximum_microusd, _later(ends_at, rounds, hour))
        left -= price
    raise AssertionError("what is left is less than one round costs")


def _later(moment: datetime, times: int, by: timedelta) -> datetime | None:
    """None where that is further away than there are dates."""
    try:
        return moment + times * by
    except OverflowError:
        return None

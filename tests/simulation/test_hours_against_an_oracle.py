"""Any history of slots, and a month of many, against an oracle that was written another way."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.ledger.rules import Hour, Occupied, Renewal, cover, next_hour, renewal

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
TICK = timedelta(minutes=5)
TICKS_PER_HOUR = 12
LEAD_TICKS = 1
PRICE = 3_990_000
TYPE = "h100-80gb"

Interval = tuple[int, int]
"""A slot serves from this tick until before that one."""


@dataclass
class Simulation:
    """One container whose hours are bought by the rules, tick by tick."""

    hours: list[Hour] = field(default_factory=list)
    due: dict[str, datetime] = field(default_factory=dict)
    charged_microusd: int = 0

    def run(self, serving: Sequence[frozenset[int]], restarts: Iterable[tuple[int, int]] = ()) -> int:
        """`serving[tick]` are the slots that serve then; at a restart (tick, slot) the replica is another one."""
        replaced = set(restarts)
        before: frozenset[int] = frozenset()
        for tick, slots in enumerate(serving):
            now = START + tick * TICK
            self._renew(slots & before, now)
            begin = sorted(slot for slot in slots if slot not in before or (tick, slot) in replaced)
            busy = [slot for slot in slots if slot not in begin]
            self._begin(begin, busy, now)
            before = slots
        return self.charged_microusd

    def _begin(self, slots: Sequence[int], busy: Sequence[int], now: datetime) -> None:
        coverage = cover(slots, Occupied(frozenset(busy)), self.hours, TYPE, now)
        for hour_id, slot in coverage.moves:
            index = next(i for i, hour in enumerate(self.hours) if hour.id == hour_id)
            self.hours[index] = Hour(hour_id, slot, TYPE, self.hours[index].expires_at)
        for slot in coverage.hold:
            self._buy(slot, now + HOUR)

    def _renew(self, slots: frozenset[int], now: datetime) -> None:
        for hour in [one for one in self.hours if one.id in self.due and self.due[one.id] <= now]:
            assert hour.expires_at is not None
            match renewal(serves=hour.slot in slots, comes_up=False, expires_at=hour.expires_at, now=now):
                case Renewal.BUY:
                    del self.due[hour.id]
                    self._buy(hour.slot, next_hour(hour.expires_at, now, HOUR)[1])
                case Renewal.WAIT:
                    self.due[hour.id] = hour.expires_at
                case Renewal.CLOSE:
                    del self.due[hour.id]
        self.hours = [one for one in self.hours if one.id in self.due or one.expires_at > now]  # type: ignore[operator]

    def _buy(self, slot: int, expires_at: datetime) -> None:
        hour = Hour(f"hour_{self.charged_microusd}", slot, TYPE, expires_at)
        self.hours.append(hour)
        self.due[hour.id] = expires_at - LEAD_TICKS * TICK
        self.charged_microusd += PRICE


def cost(serving: Sequence[frozenset[int]], restarts: Iterable[tuple[int, int]] = ()) -> int:
    return Simulation().run(serving, restarts)


def oracle(serving: Sequence[frozenset[int]]) -> int:
    """Knows nothing of holds, renewals or ids: a slot that serves must be paid, and is paid until a tick."""
    paid_until: dict[int, int] = {}
    hours = 0
    before: frozenset[int] = frozenset()
    for tick, slots in enumerate(serving):
        for slot in sorted(slots):
            ends = paid_until.get(slot, 0)
            stays = slot in before
            if stays and ends - LEAD_TICKS == tick:
                paid_until[slot] = ends + TICKS_PER_HOUR
                hours += 1
            elif ends <= tick:
                idle = {one: until for one, until in paid_until.items() if one not in slots and until > tick}
                if not stays and idle:
                    best = max(idle, key=lambda one: idle[one])
                    paid_until[slot] = paid_until.pop(best)
                else:
                    paid_until[slot] = tick + TICKS_PER_HOUR
                    hours += 1
        before = slots
    return hours * PRICE


def of_one_slot(intervals: Sequence[Interval], ticks: int) -> list[frozenset[int]]:
    on, off = frozenset({0}), frozenset[int]()
    return [on if any(a <= tick < b for a, b in intervals) else off for tick in range(ticks)]


@given(st.lists(st.integers(0, 300), min_size=2, max_size=12, unique=True), st.integers(1, 299))
def test_splitting_and_joining_changes_nothing(moments: list[int], cut: int) -> None:
    intervals = list(pairwise(sorted(moments)))[::2]
    whole = of_one_slot(intervals, 301)
    assert cost(whole, [(cut, 0)]) == cost(whole) == oracle(whole)


@given(
    st.integers(1, 4), st.lists(st.tuples(st.integers(0, 199), st.integers(0, 3)), max_size=30), st.randoms()
)
def test_any_restarts_in_any_order_cost_the_same(
    slots: int, restarts: list[tuple[int, int]], order: random.Random
) -> None:
    serving = [frozenset(range(slots))] * 200
    order.shuffle(restarts)
    assert cost(serving, restarts) == cost(serving) == oracle(serving)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 4)), min_size=1, max_size=12))
def test_any_scaling_costs_what_the_oracle_says(steps: list[tuple[int, int]]) -> None:
    serving = [frozenset(range(replicas)) for ticks, replicas in steps for _ in range(ticks)]
    assert cost(serving) == oracle(serving)


@pytest.mark.long
def test_a_month_of_200_containers() -> None:
    chance = random.Random(20260301)
    ticks = 30 * 24 * TICKS_PER_HOUR
    total = expected = 0
    for number in range(200):
        serving: list[frozenset[int]] = []
        most = 1 if number % 2 else 4
        while len(serving) < ticks:
            serving += [frozenset(range(chance.randint(0, most)))] * chance.randint(1, 200)
        serving = serving[:ticks]
        restarts = [(chance.randrange(ticks), chance.randrange(most)) for _ in range(50)]
        total += cost(serving, restarts)
        expected += oracle(serving)
    assert total == expected
    print(f"\n200 containers, 30 days: {total} microusd, as the oracle says")


def test_what_never_served_costs_nothing() -> None:
    assert cost([frozenset()] * 100) == 0

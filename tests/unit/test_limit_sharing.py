"""Gateways that divide limits among themselves, in a world of seconds: what they let in together stays within the limit."""

import random
from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.gateway.limit_sharing import (
    NOTHING_YET,
    Limit,
    Part,
    Peer,
    decide,
    decide_alone,
    equal_part,
    next_divisor,
)

WINDOW_S = 10


class Counts:
    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque()
        self._sum = 0

    def add(self, now_s: float, count: int) -> None:
        self._counts.append((now_s, count))
        self._sum += count

    def within_window(self, now_s: float) -> int:
        while self._counts and self._counts[0][0] <= now_s - WINDOW_S:
            self._sum -= self._counts.popleft()[1]
        return self._sum


@dataclass
class Row:
    divisor: int
    agreed_at_s: float
    part: Part | None = None


@dataclass
class Gateway:
    divisor: int
    share: int | None = None
    let_in: "Counts" = field(default_factory=lambda: Counts())
    agreed_at_s: float = 0.0

    def used(self, now_s: float) -> int:
        return self.let_in.within_window(now_s)

    def ask(self, requests: int, limit: Limit, now_s: float) -> int:
        share = equal_part(limit.requests, self.divisor) if self.share is None else self.share
        let_in = min(requests, max(0, share - self.used(now_s)))
        self.let_in.add(now_s, let_in)
        return let_in


@dataclass
class World:
    limit: Limit
    now_s: float = 0.0
    rows: dict[str, Row] = field(default_factory=dict)
    gateways: dict[str, Gateway] = field(default_factory=dict)
    cut_off: frozenset[str] = frozenset()
    let_in: Counts = field(default_factory=Counts)
    let_in_ever: int = 0
    most: int = 0
    """That was let in within a window."""

    def join(self, name: str) -> None:
        divisor = NOTHING_YET if self.rows else 1
        self.gateways[name] = Gateway(divisor, agreed_at_s=self.now_s)
        self.rows[name] = Row(divisor, self.now_s)

    def forget(self, name: str) -> None:
        del self.gateways[name], self.rows[name]

    def look(self, name: str) -> None:
        gateway = self.gateways[name]
        if name in self.cut_off:
            if gateway.share is not None:
                silent_s = self.now_s - gateway.agreed_at_s
                gateway.share = decide_alone(self.limit, gateway.divisor, gateway.share, silent_s)
            return
        others = {other: row for other, row in self.rows.items() if other != name}
        peers = {other: Peer(row.divisor, self.now_s - row.agreed_at_s) for other, row in others.items()}
        parts = {other: row.part for other, row in others.items() if row.part is not None}
        used = gateway.used(self.now_s)
        divisor = next_divisor(gateway.divisor, peers.values())
        falls = divisor < gateway.divisor
        decision = decide(self.limit, gateway.divisor, gateway.share, used, peers, parts, divisor_falls=falls)
        self.rows[name] = Row(min(divisor, gateway.divisor), self.now_s, decision.part)
        gateway.share, gateway.divisor, gateway.agreed_at_s = decision.share, divisor, self.now_s

    def second(self, loads: dict[str, int], chance: random.Random) -> None:
        """Everybody looks once at some moment of it, requests come before and after."""
        names = list(self.gateways)
        for when, name in sorted((chance.random(), name) for name in names):
            self.now_s = int(self.now_s) + when
            for one in names:
                self._ask(one, chance.randint(0, loads.get(one, 0)))
            self.look(name)
        for one in names:
            self._ask(one, loads.get(one, 0))
        self.now_s = float(int(self.now_s) + 1)

    def _ask(self, name: str, requests: int) -> None:
        let_in = self.gateways[name].ask(requests, self.limit, self.now_s)
        self.let_in.add(self.now_s, let_in)
        self.let_in_ever += let_in
        self.most = max(self.most, self.let_in.within_window(self.now_s))

    def pass_seconds(self, seconds: int, loads: dict[str, int], chance: random.Random) -> int:
        """Returns how many were let in."""
        before = self.let_in_ever
        for _ in range(seconds):
            self.second(loads, chance)
        return self.let_in_ever - before


def world_of(limit: int, *names: str) -> World:
    world = World(Limit(limit, WINDOW_S))
    for name in names:
        world.join(name)
        world.pass_seconds(4, {}, random.Random(1))
    return world


@pytest.mark.parametrize("limit", [7, 60, 1000])
@pytest.mark.parametrize("loads", [{"a": 2000}, {"a": 2000, "b": 2000}, {"a": 2000, "b": 1}], ids=str)
def test_the_limit_is_used_wherever_the_requests_come(limit: int, loads: dict[str, int]) -> None:
    world = world_of(limit, "a", "b")
    chance = random.Random(7)
    world.pass_seconds(10, loads, chance)
    let_in = world.pass_seconds(5 * WINDOW_S, loads, chance)
    assert 0.9 * 5 * limit - 5 <= let_in <= 5 * limit + 2


def test_shares_follow_the_requests_to_another_gateway() -> None:
    world = world_of(200, "a", "b")
    chance = random.Random(3)
    world.pass_seconds(30, {"a": 500}, chance)
    # What the one let in counts until a window has passed; after that the other has nearly all.
    world.pass_seconds(WINDOW_S + 5, {"b": 500}, chance)
    assert world.gateways["b"].used(world.now_s) >= 0.9 * 200
    assert world.most <= 202


@pytest.mark.parametrize("limit", [200, 27, 3, 1])
def test_when_nobody_asks_everybody_has_an_equal_part_and_says_nothing(limit: int) -> None:
    world = world_of(limit, "a", "b")
    chance = random.Random(3)
    world.pass_seconds(20, {"a": 500}, chance)
    assert world.rows["a"].part is not None
    world.pass_seconds(WINDOW_S + 5, {}, chance)
    assert {row.part for row in world.rows.values()} == {None}
    assert {gateway.share for gateway in world.gateways.values()} == {None}
    assert {gateway.divisor for gateway in world.gateways.values()} == {2}


def test_one_gateway_by_itself_has_all_of_it_and_says_nothing() -> None:
    world = world_of(200, "a")
    let_in = world.pass_seconds(WINDOW_S, {"a": 500}, random.Random(3))
    assert let_in == 200
    assert world.rows["a"] == Row(1, world.rows["a"].agreed_at_s, None)


def test_the_part_of_one_that_is_gone_is_used_once_it_is_forgotten() -> None:
    world = world_of(200, "a", "b")
    chance = random.Random(5)
    loads = {"a": 500, "b": 500}
    world.pass_seconds(20, loads, chance)
    world.cut_off = frozenset({"b"})
    world.pass_seconds(60, {"a": 500}, chance)
    # It may still let in its part.
    assert 90 * 4 <= world.pass_seconds(4 * WINDOW_S, {"a": 500}, chance) <= 100 * 4
    world.forget("b")
    world.pass_seconds(5, {"a": 500}, chance)
    assert 180 * 4 <= world.pass_seconds(4 * WINDOW_S, {"a": 500}, chance) <= 200 * 4


def test_one_that_had_everything_and_is_gone_is_not_waited_for() -> None:
    """Its database was restored elsewhere: nobody will ever forget it there, or hear of it."""
    world = world_of(200, "a")
    world.cut_off = frozenset({"a"})
    chance = random.Random(5)
    world.pass_seconds(15, {}, chance)
    world.join("b")
    world.pass_seconds(8, {}, chance)
    assert world.gateways["b"].divisor == 2
    assert world.pass_seconds(WINDOW_S, {"b": 500}, chance) == 100


def test_without_the_database_each_has_its_part_again_after_a_while() -> None:
    world = world_of(200, "a", "b")
    chance = random.Random(5)
    world.pass_seconds(20, {"a": 500}, chance)
    world.cut_off = frozenset({"a", "b"})
    world.pass_seconds(60, {"a": 500, "b": 500}, chance)
    assert world.most <= 202
    for name in "ab":
        assert 90 * 4 <= world.pass_seconds(4 * WINDOW_S, {name: 500}, chance) <= 100 * 4


@given(
    seed=st.integers(0, 2**32),
    limit=st.integers(1, 300),
    happenings=st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abc"), st.sampled_from([0, 1, 5, 40, 500])),
            st.frozensets(st.sampled_from("abc")),
            st.integers(1, 40),
        ),
        min_size=1,
        max_size=8,
    ),
)
@settings(max_examples=100, deadline=None)
def test_together_they_never_let_in_more(
    seed: int, limit: int, happenings: list[tuple[dict[str, int], frozenset[str], int]]
) -> None:
    """Whatever comes where, whoever hears nothing of the others. Each lets in one at least, and parts are rounded up."""
    world, chance = world_of(limit, "a", "b"), random.Random(seed)
    for number, (loads, cut_off, seconds) in enumerate(happenings):
        if number == 3:
            world.join("c")
        world.cut_off = cut_off
        world.pass_seconds(seconds, loads, chance)
    assert world.most <= limit + len(world.gateways)

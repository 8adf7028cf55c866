"""Reports of gateways that die at each of their statements, told at random, against an oracle that counts seconds.

Time is the test's: between two reports everything that is written moves back. What a report says, its gateway sees until its next one;
unless that comes so late that nobody knows what was in between.
"""

import random
from asyncio import CancelledError
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from reconciler_support import Doom, DoomedDatabase, World
from sqlalchemy import text
from test_served_spans import DRAINS, FAILS, HERE, OWNED, SERVES, THERE, change
from test_served_spans import world as world

from moorage.gateway.repository import RouteReport, note_seen, report
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.ids import GatewayId

STORIES, ROUNDS = 4, 7
GAPS_S = (2, 4, 3600)
"""Between two rounds, in each of which both gateways speak. After the last of these they were silent for longer than they may be."""
SHORT_S = 15
REPLICAS = ("rep_owned", "rep_owned_too")


@dataclass
class Reports:
    world: World
    doomed: DoomedDatabase
    seed: int
    now_s: int = 0
    before: dict[GatewayId, tuple[int, dict[str, RouteReport]]] = field(default_factory=dict)
    """When each gateway spoke last, and what it said."""
    served_s: Counter[str] = field(default_factory=Counter)
    """By gateway and replica, as the oracle counts."""
    deaths: int = 0

    async def tell(self) -> None:
        chance = random.Random(self.seed)
        began_s = system_clock.monotonic()
        for _ in range(ROUNDS):
            await self.time_passes(chance.choice(GAPS_S))
            for gateway in (HERE, THERE):
                said = {one: chance.choice((SERVES, SERVES, SERVES, FAILS, DRAINS)) for one in REPLICAS}
                held = {one: its for one, its in said.items() if chance.random() < 0.9}
                self.count(gateway, held)
                await self.say(gateway, held)
                await self.compare(gateway, held)
        real_s = system_clock.monotonic() - began_s
        for which, seconds in (await self.closed_s()).items():
            # What the test itself takes passes too.
            assert self.served_s[which] <= seconds + 0.001, f"seed {self.seed}: {which}"
            assert seconds <= self.served_s[which] + real_s, f"seed {self.seed}: {which}"

    async def time_passes(self, seconds: int) -> None:
        self.now_s += seconds
        by = f"- interval '{seconds} s'"
        await change(self.world, f"UPDATE gateways SET seen_at = seen_at {by}")
        await change(
            self.world, f"UPDATE served_spans SET began_at = began_at {by}, ended_at = ended_at {by}"
        )

    def count(self, gateway: GatewayId, held: dict[str, RouteReport]) -> None:
        spoke_s, said = self.before.get(gateway, (self.now_s, {}))
        if self.now_s - spoke_s <= SHORT_S:
            self.served_s.update(
                {f"{gateway} {one}": self.now_s - spoke_s for one, its in said.items() if its is SERVES}
            )
        self.before[gateway] = self.now_s, held

    async def say(self, gateway: GatewayId, held: dict[str, RouteReport]) -> None:
        """As the agent does it: in one transaction, and all of it again after a death."""
        for at in range(1, 100):
            self.doomed.doom = doom = Doom(at)
            with suppress(CancelledError):
                async with self.doomed.transaction() as session:
                    assert await note_seen(session, gateway, held)
                    await report(session, gateway, held)
            if not doom.dead:
                return
            self.deaths += 1
        raise AssertionError("it does not converge")

    async def compare(self, gateway: GatewayId, held: dict[str, RouteReport]) -> None:
        """Spans are open where it serves, and none counts a moment twice."""
        open_ = f"SELECT replica_id FROM served_spans WHERE gateway_id = '{gateway}' AND ended_at IS NULL"
        found = sorted(str(one) for (one,) in await self.rows(open_))
        assert found == sorted(one for one, its in held.items() if its is SERVES), f"seed {self.seed}"
        twice = await self.rows(
            "SELECT 1 FROM served_spans one JOIN served_spans other USING (gateway_id, replica_id) WHERE one.began_at < other.began_at "
            "AND coalesce(one.ended_at, 'infinity') > other.began_at"
        )
        assert twice == [], f"seed {self.seed}"

    async def closed_s(self) -> dict[str, float]:
        """As far as each gateway was seen: what it said last has not lasted yet."""
        rows = await self.rows(
            "SELECT gateway_id || ' ' || replica_id, sum(extract(epoch FROM coalesce(ended_at, greatest(began_at, seen_at)) - began_at)) "
            "FROM served_spans JOIN gateways ON gateways.id = gateway_id GROUP BY 1"
        )
        return {which: float(seconds) for which, seconds in rows}

    async def rows(self, statement: str) -> list[tuple[str, ...]]:
        async with self.world.database.reading() as session:
            return [tuple(row) for row in await session.execute(text(statement))]


@pytest.fixture
async def doomed(database_dsn: str) -> AsyncIterator[DoomedDatabase]:
    opened = DoomedDatabase(database_dsn)
    yield opened
    await opened.close()


@pytest.mark.long
async def test_reports_that_die_at_every_statement(
    world: World, doomed: DoomedDatabase, database: Database
) -> None:
    too = "SELECT 'rep_owned_too', container_id, 2, generation, instance_type, state, engine, node, gpu_device_ids, ended_badly"
    columns = (
        "id, container_id, slot, generation, instance_type, state, engine, node, gpu_device_ids, ended_badly"
    )
    await change(world, f"INSERT INTO replicas ({columns}) {too} FROM replicas WHERE engine = '{OWNED}'")
    deaths, served_s = 0, 0
    for seed in range(STORIES):
        await change(world, "DELETE FROM served_spans")
        await change(world, "DELETE FROM replica_routes")
        story = Reports(world, doomed, seed)
        await story.tell()
        deaths, served_s = deaths + story.deaths, served_s + story.served_s.total()
    assert deaths > 100
    assert served_s > 0
    print(f"\n{STORIES} stories of {ROUNDS} rounds, {deaths} deaths: {served_s} s served, each counted once")

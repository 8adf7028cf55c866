"""A limit holds for all gateways together, wherever the requests come, and whatever happens to one of them.

Each test counts from the first request on, so that a window of HAProxy begins with it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import asyncpg
import pytest
from gateway_support import Container, eventually
from many_support import HEADERS, Gateway, World, make_world, new_gateway
from sqlalchemy import text

from moorage.gateway.limit_sharing import NOTHING_YET
from moorage.gateway.rate_rules import DIVISOR_KEY, LIMITS_MAP, Scope
from moorage.gateway.rate_tables import LimitName, read_counted
from moorage.gateway.repository import forget_gateway
from moorage.identity.api_keys.channels import API_KEYS
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, notify

PER_S = 20
WINDOW_S = 10
LIMIT = PER_S * WINDOW_S
ROUNDING = 2
"""Each gateway lets in one request at least, and an equal part is rounded up."""
PAUSE_S = 0.02


@pytest.fixture
async def world(database: Database, container: Container) -> World:
    world = await make_world(database)
    await world.add_replica(container)
    return world


@pytest.fixture
async def gateways(
    world: World, database: Database, short_folder: Path
) -> AsyncIterator[tuple[Gateway, Gateway]]:
    async with (
        new_gateway(short_folder / "a", database, key_requests_per_s=PER_S) as one,
        new_gateway(short_folder / "b", database, key_requests_per_s=PER_S) as two,
    ):
        await eventually(lambda: _divides_by(2, one, two))
        await eventually(lambda: _serve(world, one, two))
        yield one, two


async def _divides_by(divisor: int, *gateways: Gateway) -> bool:
    return all([await gateway.dataplane.limit_divisor() == divisor for gateway in gateways])


async def _serve(world: World, *gateways: Gateway) -> bool:
    """Told by themselves: a request would count."""
    return {gateway.id for gateway in gateways} <= (await world.holders(world.replica_id)).keys()


class Load:
    """Asks as much as it can, of some gateways at a time."""

    def __init__(self, world: World) -> None:
        self._path = f"/c/{world.container_id}/v1"
        self.let_in: dict[str, int] = {}
        self.began_at_s = 0.0

    @property
    def total(self) -> int:
        return sum(self.let_in.values())

    @property
    def passed_s(self) -> float:
        return system_clock.monotonic() - self.began_at_s

    @property
    def bound(self) -> float:
        """What may have been let in by now: a whole limit at once, and from the second window on as much as comes free."""
        return LIMIT * max(1.0, self.passed_s / WINDOW_S) + ROUNDING

    @contextlib.asynccontextmanager
    async def on(self, *gateways: Gateway) -> AsyncIterator[None]:
        self.began_at_s = self.began_at_s or system_clock.monotonic()
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(self._ask(gateway)) for gateway in gateways for _ in range(2)]
            try:
                yield
            finally:
                for task in asking:
                    task.cancel()

    async def _ask(self, gateway: Gateway) -> None:
        self.let_in.setdefault(gateway.id, 0)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{gateway.place.port}") as client:
            while True:
                async with client.get(self._path, headers=HEADERS) as response:
                    assert response.status in (200, 429), await response.text()
                    if response.status == 200:
                        self.let_in[gateway.id] += 1
                if response.status == 429:
                    await asyncio.sleep(PAUSE_S)

    async def until(self, at_s: float) -> None:
        """Since the first request; in between, the bound always holds."""
        while self.passed_s < at_s:
            assert self.total <= self.bound, (self.let_in, self.passed_s)
            await asyncio.sleep(0.1)


async def shares_of(gateway: Gateway) -> dict[LimitName, int | None]:
    counted = await read_counted(gateway.dataplane.process.worker, {})
    return {name: one.share for name, one in counted.items()}


async def rows(world: World) -> int:
    async with world.database.reading() as session:
        return (await session.execute(text("SELECT count(*) FROM limit_shares"))).scalar_one()


@pytest.mark.long
async def test_what_one_gateway_does_not_use_the_other_has_and_together_it_is_the_limit(
    world: World, gateways: tuple[Gateway, Gateway]
) -> None:
    one, two = gateways
    load = Load(world)
    async with load.on(one):
        # More than its half: the other has left it the rest.
        await eventually(lambda: load.total >= 0.9 * LIMIT)
    took_s = load.passed_s
    async with load.on(one, two):
        await load.until(took_s + 1)
    assert load.total <= load.bound
    assert took_s < WINDOW_S, "within one window, so that it was not merely waited for"


async def test_one_gateway_by_itself_has_the_whole_limit_and_shares_nothing(
    world: World, database: Database, short_folder: Path
) -> None:
    async with new_gateway(short_folder / "a", database, key_requests_per_s=PER_S) as alone:
        await eventually(lambda: _serve(world, alone))
        load = Load(world)
        async with load.on(alone):
            await eventually(lambda: load.total >= LIMIT)
            await load.until(load.passed_s + 0.5)
        limits = await alone.dataplane.process.worker.map_entries(alone.place.config.map_path(LIMITS_MAP))
        assert (limits, await shares_of(alone), await rows(world)) == ({}, {}, 0)


@pytest.mark.proof
async def test_the_limit_holds_and_is_used_while_requests_move_about(
    world: World, gateways: tuple[Gateway, Gateway]
) -> None:
    one, two = gateways
    load = Load(world)
    for number, busy in enumerate([(one,), (one, two), (two,), (one, two)], start=1):
        async with load.on(*busy):
            await load.until(number * 15)
    print(f"let in {load.total} of {load.bound:.0f} in {load.passed_s:.0f} s, {load.let_in}")
    assert load.total >= 0.9 * load.bound
    # And when nobody asks any more nothing is left of it.
    await eventually(lambda: _nothing_shared(world, one, two), within_s=WINDOW_S + 15)


async def _nothing_shared(world: World, *gateways: Gateway) -> bool:
    return await rows(world) == 0 and not any([await shares_of(gateway) for gateway in gateways])


@pytest.mark.proof
async def test_the_part_of_a_gateway_that_died_is_used_once_it_is_forgotten(
    world: World, gateways: tuple[Gateway, Gateway]
) -> None:
    one, two = gateways
    load = Load(world)
    async with load.on(one, two):
        await load.until(15)
    await two.die()
    two.place.kill()
    async with load.on(one):
        await load.until(30)
        before, at_s = load.total, load.passed_s
        await load.until(50)
        # It may still let in its part, as far as anybody knows.
        assert load.total - before <= LIMIT / 2 * (load.passed_s - at_s) / WINDOW_S + ROUNDING
        async with world.database.transaction() as session:
            await forget_gateway(session, two.id)
        await load.until(60)
        before, at_s = load.total, load.passed_s
        await load.until(80)
        assert load.total - before >= 0.9 * LIMIT * (load.passed_s - at_s) / WINDOW_S
    await eventually(lambda: _divides_by(1, one))


@contextlib.asynccontextmanager
async def without_postgres(database: Database) -> AsyncIterator[None]:
    """Nobody is connected to this database, and nobody can connect."""
    name = database.dsn.partition("?")[0].rpartition("/")[2]
    admin = await asyncpg.connect(database.dsn.replace(f"/{name}?", "/postgres?"))
    try:
        await admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
        await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
        yield
    finally:
        await admin.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
        await admin.close()


@pytest.mark.proof
async def test_without_postgres_they_let_in_no_more_and_each_has_its_part_after_a_while(
    world: World, gateways: tuple[Gateway, Gateway]
) -> None:
    one, two = gateways
    load = Load(world)
    async with load.on(one):
        await load.until(12)
    async with without_postgres(world.database):
        # All requests go elsewhere now: at first there is next to nothing for them, later a half.
        async with load.on(one, two):
            await load.until(60)
        before, at_s = load.let_in[two.id], load.passed_s
        async with load.on(two):
            await load.until(80)
        assert load.let_in[two.id] - before >= 0.9 * LIMIT / 2 * (load.passed_s - at_s) / WINDOW_S
    async with load.on(two):
        await load.until(100)
        before, at_s = load.total, load.passed_s
        await load.until(120)
        assert load.total - before >= 0.9 * LIMIT * (load.passed_s - at_s) / WINDOW_S


async def _limit_per_minute(world: World, requests: int) -> None:
    async with world.database.transaction() as session:
        await session.execute(text("UPDATE api_keys SET requests_per_minute = :limit"), {"limit": requests})
        await notify(session, API_KEYS)


@pytest.mark.proof
async def test_a_limit_per_minute_holds_too_and_a_lower_one_takes_effect(
    world: World, gateways: tuple[Gateway, Gateway]
) -> None:
    one, two = gateways
    await _limit_per_minute(world, 60)
    name = LimitName(Scope.OWN_LIMIT, world.key_id)
    await eventually(lambda: _knows_limit(60, one, two))
    load = Load(world)
    async with load.on(one):
        await eventually(lambda: load.total >= 0.9 * 60)
    async with load.on(one, two):
        await load.until(20)
        assert load.total <= 60 + ROUNDING
        await _limit_per_minute(world, 20)
        await eventually(lambda: _share_is_at_most(20, name, one))
        before = load.total
        await load.until(50)
        assert load.total - before <= 1, "what was let in before counts"
        # Within the second minute what was let in during the first one fades: from 60 on a third of it is free at 100 s.
        await load.until(110)
    print(f"let in {load.total} of 60 a minute, then of 20 a minute: {load.let_in}")
    assert load.total <= 60 + 20 * 50 / 60 + ROUNDING


async def _knows_limit(limit: int, *gateways: Gateway) -> bool:
    found = []
    for gateway in gateways:
        path = gateway.place.config.map_path("keys.map")
        found += (await gateway.dataplane.process.worker.map_entries(path)).values()
    return all(value.endswith(f":{limit}") for value in found)


async def _share_is_at_most(limit: int, name: LimitName, gateway: Gateway) -> bool:
    return ((await shares_of(gateway)).get(name) or 1000) <= limit


@pytest.mark.long
async def test_one_that_joins_waits_until_the_others_have_made_room(
    world: World, database: Database, short_folder: Path
) -> None:
    async with new_gateway(short_folder / "a", database, key_requests_per_s=PER_S) as one:
        await eventually(lambda: _serve(world, one))
        # Its agent does nothing for a moment, and its HAProxy goes on with the whole limit.
        await one.die()
        async with new_gateway(short_folder / "b", database, key_requests_per_s=PER_S) as two:
            await eventually(lambda: _serve(world, two))
            limits = await two.dataplane.process.worker.map_entries(two.place.config.map_path(LIMITS_MAP))
            assert limits == {DIVISOR_KEY: str(NOTHING_YET)}
            load = Load(world)
            async with load.on(one, two):
                await load.until(8)
            assert LIMIT <= load.total <= LIMIT + 1

"""The controller dies, or the engine fails it, at every single step of a deployment and of its stop.

Each story is struck twice at the same number: at the n-th step of the deployment and at the n-th of the stop.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest
from reconciler_support import Doom, DoomedDatabase, WatchedEngine, World, life, new_world
from sqlalchemy import text

from moorage.containers import service
from moorage.kit.database import Database
from moorage.kit.errors import EngineError

ROUNDS_UNDISTURBED = 5
"""At most: image, row and start, start seen, ready, routed; or draining, stop, stop seen, collected, removed."""
MOST_ROUNDS = 20
EXTRA_ROUNDS = 2
"""What a strike may cost: the pass that it interrupts, and one in which its effects are found."""


@dataclass
class Strike:
    """What happens to the controller at its n-th step, and whether it came to that."""

    doom: Doom = field(default_factory=Doom)
    at_call: int | None = None
    kills: bool = True
    calls: int = 0
    struck: str | None = None

    async def on_call(self, name: str) -> None:
        self.calls += 1
        if self.calls == self.at_call:
            self.struck = name
            self.doom.dead = self.kills
            if not self.kills:
                raise EngineError(f"{name}: the connection broke")
        if self.doom.dead:
            raise asyncio.CancelledError("killed")


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


@pytest.fixture
async def doomed(database_dsn: str) -> AsyncIterator[DoomedDatabase]:
    opened = DoomedDatabase(database_dsn)
    yield opened
    await opened.close()


async def rounds_until_done(
    world: World,
    container_id: str,
    replicas: int,
    engine: WatchedEngine,
    doomed: DoomedDatabase,
    strike: Strike,
) -> int:
    """One phase: struck once, then (after a death) with a new controller that nothing happens to."""
    rounds = 0
    doomed.doom = Doom()
    async with life(world, engine, doomed) as first:
        doomed.doom = strike.doom
        while not strike.doom.dead and not await done(world, container_id, replicas):
            assert rounds < MOST_ROUNDS, await told(world, container_id)
            rounds += 1
            await first.round(container_id, strike.doom)
            await first.finish_probes(container_id)
    if strike.doom.dead:
        async with life(world, WatchedEngine(world.machine)) as second:
            while not await done(world, container_id, replicas):
                assert rounds < MOST_ROUNDS, await told(world, container_id)
                rounds += 1
                await second.round(container_id)
                await second.finish_probes(container_id)
    return rounds


async def told(world: World, container_id: str) -> str:
    """Why it is not done."""
    row = await world.container(container_id)
    replicas = [f"{one.id} {one.state} at {one.host_port}" for one in await world.replicas(container_id)]
    there = sorted(world.machine.ids_of(container_id))
    return f"it does not converge: {row.state}, {row.reason}, {row.message}; rows: {replicas}; processes: {there}"


async def done(world: World, container_id: str, replicas: int) -> bool:
    row = await world.container(container_id)
    if row.desired_state == "stopped":
        return row.state == "STOPPED" and await world.nothing_left(container_id)
    rows = await world.replicas(container_id)
    there = {one.id for one in rows if one.state == "routed"}
    return (
        row.state == "RUNNING"
        and len(there) == len(rows) == replicas
        and there == world.machine.ids_of(container_id)
    )


async def strike_everywhere(
    world: World, doomed: DoomedDatabase, replicas: int, arm: Callable[[WatchedEngine, int], Strike]
) -> tuple[Counter[str], int]:
    """Returns where it struck, and the most passes that a phase took."""
    points: Counter[str] = Counter()
    most = 0
    for at in range(1, 500):
        container_id = await world.create(replicas=replicas)
        strikes = []
        for phase in ("deploy", "stop"):
            if phase == "stop":
                await world.ask(service.stop_container, container_id)
            engine = WatchedEngine(world.machine)
            strikes.append(arm(engine, at))
            most = max(
                most, await rounds_until_done(world, container_id, replicas, engine, doomed, strikes[-1])
            )
        assert world.machine.twins == []
        async with world.database.transaction() as session:  # or every pass to come would read all of it
            for table in ("replica_routes", "replicas", "containers"):
                await session.execute(text(f"DELETE FROM {table}"))
        points.update(name for strike in strikes if (name := _struck(strike)))
        if not any(_struck(strike) for strike in strikes):
            return points, most
    raise AssertionError("the story has no end")


def _struck(strike: Strike) -> str | None:
    return strike.struck or ("statement" if strike.doom.dead else None)


def check(what: str, points: Counter[str], most: int) -> None:
    told = ", ".join(f"{name} {count}" for name, count in sorted(points.items()))
    print(
        f"\n{what}: {sum(points.values())} points ({told}), all converged, at most {most} passes ({ROUNDS_UNDISTURBED} undisturbed)"
    )
    assert most <= ROUNDS_UNDISTURBED + EXTRA_ROUNDS


async def test_undisturbed(world: World, doomed: DoomedDatabase) -> None:
    engine, container_id = WatchedEngine(world.machine), await world.create(replicas=2)
    assert await rounds_until_done(world, container_id, 2, engine, doomed, Strike()) <= ROUNDS_UNDISTURBED
    await world.ask(service.stop_container, container_id)
    assert await rounds_until_done(world, container_id, 2, engine, doomed, Strike()) <= ROUNDS_UNDISTURBED


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kills", [True, False], ids=["killed", "failed"])
@pytest.mark.long
async def test_at_every_engine_call(world: World, doomed: DoomedDatabase, moment: str, kills: bool) -> None:
    def arm(engine: WatchedEngine, at: int) -> Strike:
        strike = Strike(at_call=at, kills=kills)
        setattr(engine, moment, strike.on_call)
        return strike

    points, most = await strike_everywhere(world, doomed, 2, arm)
    assert set(points) == {"ensure_image", "inspect", "start", "stop", "remove"}
    check(f"{'killed' if kills else 'failed'} {moment} the effect of engine calls", points, most)


@pytest.mark.long
async def test_killed_at_every_write_and_commit(world: World, doomed: DoomedDatabase) -> None:
    points, most = await strike_everywhere(world, doomed, 1, lambda _, at: Strike(Doom(at)))
    assert points["statement"] > 30
    check("killed before writes, and before and after commits", points, most)

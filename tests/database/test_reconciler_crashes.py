"""The controller dies, or the engine fails it, at every single step of a deployment and its stop."""

from collections import Counter
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from moorage.containers import service
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from reconciler_support import Doom, DoomedDatabase, Life, WatchedEngine, World, life, new_world

PASSES_UNDISTURBED = 10
"""Image, row, start seen, ready, routed; draining, stop, stop seen, collected, removed."""
EXTRA_PASSES = 2
"""What a death may cost: the pass that it interrupts, and one in which its effects are found."""


class FailsOnce:
    """The engine's n-th call fails: with nothing done, or with everything done and the reply lost."""

    def __init__(self, at: int) -> None:
        self.at, self.calls, self.failed = at, 0, False

    async def __call__(self, name: str) -> None:
        self.calls += 1
        if self.calls == self.at:
            self.failed = True
            raise EngineError(f"{name}: the connection broke")


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


@pytest.fixture
async def doomed(database_dsn: str) -> AsyncIterator[DoomedDatabase]:
    opened = DoomedDatabase(database_dsn)
    yield opened
    await opened.close()


class Story:
    """Deploy, then stop: one round after another until it is done, whoever leads."""

    def __init__(self, world: World, container_id: str, replicas: int) -> None:
        self.world, self.container_id, self.replicas = world, container_id, replicas
        self.rounds = 0
        self.served = False

    async def go(self, alive: Life, doom: Doom) -> bool:
        """Until it is told (True) or its leader is dead (False)."""
        while not await self.told():
            assert self.rounds < 40, "it does not converge"
            self.rounds += 1
            await alive.round(self.container_id, doom)
            if doom.dead:
                return False
        return True

    async def told(self) -> bool:
        row = await self.world.container(self.container_id)
        if not self.served:
            routed = {one.id for one in await self.world.replicas(self.container_id, "routed")}
            if row.state == "RUNNING" and len(routed) == self.replicas:
                assert routed == self.world.machine.ids_of(self.container_id), "rows and engine agree"
                self.served = True
                await self.world.ask(service.stop_container, self.container_id)
            return False
        return row.state == "STOPPED" and await self.world.nothing_left(self.container_id)


async def tell(world: World, replicas: int, engine: WatchedEngine, doomed: DoomedDatabase, doom: Doom) -> Story:
    """With that engine and that doom at first; what dies is followed by one with neither."""
    story = Story(world, await world.create(replicas=replicas), replicas)
    doomed.doom = Doom()
    async with life(world, engine, doomed) as first:
        doomed.doom = doom
        done = await story.go(first, doom)
    if not done:
        async with life(world, WatchedEngine(world.machine)) as second:
            await story.go(second, Doom())
    async with world.database.transaction() as session:  # keeps the passes to come from reading all of history
        await session.execute(text("DELETE FROM replica_routes"))
        await session.execute(text("DELETE FROM replicas"))
    assert world.machine.twins == []
    return story


def show(what: str, points: Counter[str], rounds: list[int]) -> None:
    told = ", ".join(f"{name} {count}" for name, count in sorted(points.items()))
    print(f"\n{what}: {sum(points.values())} points ({told}), all converged, at most {max(rounds)} passes")


async def test_undisturbed(world: World, doomed: DoomedDatabase) -> None:
    story = await tell(world, 2, WatchedEngine(world.machine), doomed, Doom())
    assert story.rounds == PASSES_UNDISTURBED


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_killed_at_every_engine_call(world: World, doomed: DoomedDatabase, moment: str) -> None:
    points: Counter[str] = Counter()
    rounds = []
    for at in range(1, 200):
        engine, doom, died_in = WatchedEngine(world.machine), Doom(), []
        kill = Doom(at)

        async def die(name: str, kill: Doom = kill, doom: Doom = doom, died_in: list[str] = died_in) -> None:
            if kill.steps + 1 == kill.at:
                died_in.append(name)
                doom.dead = True
            kill.step()

        setattr(engine, moment, die)
        rounds.append((await tell(world, 2, engine, doomed, doom)).rounds)
        if not doom.dead:
            break
        points[died_in[0]] += 1
    assert set(points) == {"ensure_image", "inspect", "start", "stop", "remove"}
    assert max(rounds) <= PASSES_UNDISTURBED + EXTRA_PASSES
    show(f"killed {moment} engine calls", points, rounds)


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_every_engine_call_fails_once(world: World, doomed: DoomedDatabase, moment: str) -> None:
    points: Counter[str] = Counter()
    rounds = []
    for at in range(1, 200):
        engine, failure = WatchedEngine(world.machine), FailsOnce(at)
        setattr(engine, moment, failure)
        rounds.append((await tell(world, 2, engine, doomed, Doom())).rounds)
        if not failure.failed:
            break
        points["calls"] += 1
    assert points["calls"] >= 15
    assert max(rounds) <= PASSES_UNDISTURBED + EXTRA_PASSES
    show(f"failed {moment} the effect of engine calls", points, rounds)


async def test_killed_at_every_statement_and_commit(world: World, doomed: DoomedDatabase) -> None:
    rounds = []
    for at in range(1, 1000):
        doom = Doom(at)
        rounds.append((await tell(world, 1, WatchedEngine(world.machine), doomed, doom)).rounds)
        if not doom.dead:
            break
    assert len(rounds) > 100
    assert max(rounds) <= PASSES_UNDISTURBED + EXTRA_PASSES
    show("killed at statements and commits", Counter({"statements": len(rounds) - 1}), rounds)

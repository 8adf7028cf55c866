"""The controller dies at every statement of the passes that hold, buy and release hours; what was charged is compared with an
oracle that knows only the story: a slot that served costs one hour, however often its replica was replaced."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from reconciler_support import Doom, DoomedDatabase, Life, WatchedEngine, World, life, new_world
from sqlalchemy import text
from test_renewals import PRICE, balance, change, charged

from moorage.containers import service
from moorage.containers.repository import mark_due
from moorage.kit.database import Database
from moorage.ledger.accounts import INITIAL_CREDIT_MICROUSD
from moorage.ledger.repository import Balance

PHASES = ("deploy", "restart", "scale up", "stop", "fail")
MOST_ROUNDS = 20


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


@pytest.fixture
async def doomed(database_dsn: str) -> AsyncIterator[DoomedDatabase]:
    opened = DoomedDatabase(database_dsn)
    yield opened
    await opened.close()


async def scale(world: World, container_id: str, replicas: int) -> None:
    async with world.database.transaction() as session:
        await session.execute(
            text("UPDATE containers SET desired_replicas = :replicas WHERE id = :id"),
            {"replicas": replicas, "id": container_id},
        )
        await mark_due(session, [container_id])


async def serves(world: World, container_id: str, replicas: int) -> bool:
    row = await world.container(container_id)
    live = await world.replicas(container_id, "requested", "starting", "ready", "routed", "draining")
    now = [one for one in live if one.generation == row.generation and one.state == "routed"]
    return row.state == "RUNNING" and len(now) == len(live) == replicas


async def rests(world: World, container_id: str, state: str) -> bool:
    return (await world.container(container_id)).state == state and await world.nothing_left(container_id)


@dataclass
class Story:
    """One life of a container, in each phase of which the controller dies at its n-th step."""

    world: World
    doomed: DoomedDatabase
    at: int
    charged_before: int
    died: set[str] = field(default_factory=set)

    async def phase(
        self, name: str, container_id: str, done: Callable[[], Awaitable[bool]], *, hours: int
    ) -> None:
        """Until it is done: by a controller that dies, then by one that nothing happens to."""
        self.doomed.doom = Doom()
        async with life(self.world, WatchedEngine(self.world.machine), self.doomed) as first:
            self.doomed.doom = doom = Doom(self.at)
            await rounds_until(first, container_id, done, doom)
        if doom.dead:
            self.died.add(name)
            async with life(self.world, WatchedEngine(self.world.machine)) as second:
                await rounds_until(second, container_id, done, Doom())
        bought = await charged(self.world) - self.charged_before
        assert bought == hours * PRICE, f"{name}, killed at {self.at}"

    async def tell(self, over: frozenset[str]) -> None:
        """`over` are phases with fewer steps than this; the story goes on without those that it can."""
        world = self.world
        chat = await world.create(replicas=1, max_replicas=2)
        await self.phase("deploy", chat, lambda: serves(world, chat, 1), hours=1)
        if "restart" not in over:
            await world.ask(service.restart_container, chat)
            await self.phase("restart", chat, lambda: serves(world, chat, 1), hours=1)
        await scale(world, chat, 2)
        await self.phase("scale up", chat, lambda: serves(world, chat, 2), hours=2)
        await world.ask(service.stop_container, chat)
        await self.phase("stop", chat, lambda: rests(world, chat, "STOPPED"), hours=2)
        if "fail" not in over:
            broken = await world.create("local/crash:latest")
            await self.phase("fail", broken, lambda: rests(world, broken, "FAILED"), hours=2)


async def rounds_until(
    controller: Life, container_id: str, done: Callable[[], Awaitable[bool]], doom: Doom
) -> None:
    for _ in range(MOST_ROUNDS):
        if doom.dead or await done():
            return
        await controller.round(container_id, doom)
    raise AssertionError("it does not converge")


@pytest.mark.long
async def test_killed_at_every_statement_of_a_containers_life(world: World, doomed: DoomedDatabase) -> None:
    points: Counter[str] = Counter()
    over: frozenset[str] = frozenset()
    for at in range(1, 200):
        story = Story(world, doomed, at, await charged(world))
        await story.tell(over)
        left = INITIAL_CREDIT_MICROUSD - await charged(world)
        assert await balance(world) == Balance(left, 0), "nothing is held, and the books add up"
        points.update(story.died)
        over = frozenset(PHASES) - story.died
        if not story.died:
            break
        for table in (
            "replica_routes",
            "replicas",
            "containers",
        ):  # or every pass to come would read all of it
            await change(world, f"DELETE FROM {table}")
    else:
        raise AssertionError("the story has no end")
    assert set(points) == set(PHASES)
    told = ", ".join(f"{name} {points[name]}" for name in PHASES)
    print(f"\n{points.total()} crash points ({told}), each hour charged once")

"""Two machines, each with an engine of its own: what the tests of many machines begin with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from reconciler_support import SECOND_ADDRESS, Life, Machine, WatchedEngine, World, life, new_world
from sqlalchemy import text

from moorage.catalog.repository import replace_nodes
from moorage.containers.models import ReplicaRow
from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.engines import Engines
from moorage.gateway.liveness import Health
from moorage.kit.database import Database

SECOND = "mch_second"
"""The name of the second machine's engine."""
UNREACHABLE = Health("timeout", None, 0)


@dataclass
class Fleet:
    world: World
    second: Machine = field(default_factory=lambda: Machine("second", SECOND_ADDRESS))
    engines: Engines = field(init=False)
    local_engine: WatchedEngine = field(init=False)
    second_engine: WatchedEngine = field(init=False)

    def __post_init__(self) -> None:
        self.local_engine, self.second_engine = WatchedEngine(self.world.machine), WatchedEngine(self.second)
        self.engines = Engines({LOCAL_ENGINE: self.local_engine, SECOND: self.second_engine})

    @property
    def machines(self) -> dict[str, Machine]:
        return {LOCAL_ENGINE: self.world.machine, SECOND: self.second}

    async def describe(self) -> None:
        async with self.world.database.transaction() as session:
            for name, engine in self.engines.by_name().items():
                await replace_nodes(session, await engine.capacity(), name)

    def running(self, container_id: str) -> dict[str, int]:
        """By machine."""
        return {
            machine.name: sum(one.container_id == container_id for one in machine.running())
            for machine in self.machines.values()
        }


async def new_fleet(database: Database) -> Fleet:
    fleet = Fleet(await new_world(database))
    await fleet.describe()
    return fleet


@asynccontextmanager
async def leading(fleet: Fleet) -> AsyncIterator[Life]:
    async with life(fleet.world, fleet.engines) as alive:
        alive.reconciler._operations.fit_to(SECOND, cores=8)
        yield alive


async def rounds(alive: Life, container_id: str, count: int = 8) -> None:
    for _ in range(count):
        await alive.round(container_id)


async def serving(alive: Life, container_id: str, replicas: int) -> list[ReplicaRow]:
    for _ in range(15):
        await alive.round(container_id)
        routed = await alive.world.replicas(container_id, "routed")
        row = await alive.world.container(container_id)
        if len(routed) == replicas and row.state == "RUNNING":
            return routed
        # The pause after a loss is a second of the database's clock.
        await change(alive.world, "UPDATE replicas SET ended_at = ended_at - interval '2 s'")
    raise AssertionError(f"not {replicas} serve but {len(routed)}: {row.state} {row.message}")


async def silent_for(alive: Life, engine: str, seconds: float) -> None:
    """The machine is cut off, and so much time passes."""
    await alive.reconciler._pulse.beat(engine, alive.lease)
    await change(
        alive.world,
        f"UPDATE nodes SET unready_since = unready_since - interval '{seconds} s' WHERE NOT ready",
    )


async def change(world: World, statement: str) -> None:
    async with world.database.transaction() as session:
        await session.execute(text(statement))


def none_twice(fleet: Fleet) -> None:
    """No slot of a container had two processes that were not on their way out."""
    assert [twins for machine in fleet.machines.values() for twins in machine.twins] == []

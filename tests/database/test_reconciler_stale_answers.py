"""An engine that does not find a replica which it lists: a look that is older than the start, say. It is not gone."""

import pytest
from reconciler_support import Life, WatchedEngine, World, life, new_world

from moorage.containers import suspension
from moorage.engines.base import ObservedReplica
from moorage.kit.database import Database
from moorage.kit.ids import ReplicaId


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


class ForgetfulEngine(WatchedEngine):
    def __init__(self, world: World) -> None:
        super().__init__(world.machine)
        self.not_found: set[str] = set()

    async def inspect(self, replica_id: ReplicaId) -> ObservedReplica | None:
        found = await super().inspect(replica_id)
        return None if replica_id in self.not_found else found


async def serving(alive: Life) -> tuple[str, str]:
    container_id = await alive.world.create()
    for _ in range(4):
        await alive.round(container_id)
    [routed] = await alive.world.replicas(container_id, "routed")
    return container_id, routed.id


async def test_what_serves_is_not_replaced(world: World) -> None:
    engine = ForgetfulEngine(world)
    async with life(world, engine) as alive:
        container_id, replica_id = await serving(alive)
        engine.not_found = {replica_id}
        for _ in range(3):
            await alive.round(container_id)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("RUNNING", None)
        assert [(row.id, row.state) for row in await world.replicas(container_id)] == [(replica_id, "routed")]
    assert world.machine.twins == []


async def test_what_drains_has_not_ended(world: World) -> None:
    """Wanted again meanwhile, its slot would get a second process."""
    engine, organization_id = ForgetfulEngine(world), world.project.organization_id
    async with life(world, engine) as alive:
        container_id, replica_id = await serving(alive)
        engine.not_found = {replica_id}
        async with world.database.transaction() as session:
            await suspension.suspend(session, organization_id, "usr_operator", "abuse")
        # No word of the gateway, which therefore still sends requests.
        await alive.reconciler.reconcile(container_id, alive.lease)
        await alive.reconciler.reconcile(container_id, alive.lease)
        async with world.database.transaction() as session:
            await suspension.resume(session, organization_id, "usr_operator")
        await alive.reconciler.reconcile(container_id, alive.lease)
        [row] = await world.replicas(container_id)
        assert (row.id, row.state) == (replica_id, "draining")
        for _ in range(6):
            await alive.round(container_id)
        [after] = await world.replicas(container_id, "routed")
        assert after.id != replica_id
    assert world.machine.twins == []

"""A controller that was away for longer than every limit: what counts from when somebody looks again."""

import pytest
from reconciler_support import Life, WatchedEngine, World, life, new_world
from sqlalchemy import text

from moorage.containers import service
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.repository import list_gateways
from moorage.kit.database import Database, table_of

AN_HOUR_PASSES = [
    text(f"UPDATE {name} SET " + ", ".join(f"{column} = {column} - interval '1 hour'" for column in columns))
    for name, columns in (
        (
            table_of(row).name,
            [column.name for column in table_of(row).columns if str(column.type) == "DATETIME"],
        )
        for row in (ContainerRow, ReplicaRow)
    )
]
"""In which nobody looks: everything that was written lies an hour further back."""


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def an_hour_passes(world: World) -> None:
    async with world.database.transaction() as session:
        for statement in AN_HOUR_PASSES:
            await session.execute(statement)


async def until(alive: Life, container_id: str, state: str) -> None:
    for _ in range(12):
        await alive.round(container_id)
        row = await alive.world.container(container_id)
        if row.state == state:
            return
        assert row.state != "FAILED", f"given up: {row.reason} {row.message}"
        # The pause after a loss is a second of the database's clock.
        async with alive.world.database.transaction() as session:
            await session.execute(text("UPDATE replicas SET ended_at = ended_at - interval '2 s'"))
    raise AssertionError(f"not {state}: {row.state} {row.message}")


@pytest.mark.parametrize("when", ["seen to end", "ends meanwhile"])
async def test_a_container_that_served_is_tried_after_an_absence(world: World, when: str) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(health_timeout_s=60)
        await until(alive, container_id, "RUNNING")
        [served] = await world.replicas(container_id, "routed")
        world.machine.end(served.id)
        await alive.round(container_id)
        assert (await world.container(container_id)).unready_since is not None
        if when == "ends meanwhile":
            await until(alive, container_id, "STARTING")
            for replica in await world.replicas(container_id, "requested", "starting", "ready"):
                world.machine.end(replica.id)
    await an_hour_passes(world)
    async with life(world, WatchedEngine(world.machine)) as alive:
        await until(alive, container_id, "RUNNING")


async def test_logs_of_what_ended_before_an_absence_are_waited_for(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create()
        await until(alive, container_id, "RUNNING")
        await world.ask(service.stop_container, container_id)
        for _ in range(10):
            # Not `round`: its collector has them at once.
            await alive.reconciler.reconcile(container_id, alive.lease)
            await alive.finish_operations()
            await world.gateway_step()
            if await world.replicas(container_id, "stopped"):
                break
    await an_hour_passes(world)
    async with life(world, WatchedEngine(world.machine)) as alive:
        await alive.reconciler.reconcile(container_id, alive.lease)
        [replica] = await world.replicas(container_id)
        assert replica.state == "stopped", "its logs are in nobody's hands yet, and it is not let go"
        await alive.round(container_id)
        await alive.round(container_id)
        assert [row.state for row in await world.replicas(container_id)] != ["stopped"]


async def test_after_the_clock_was_set_back_nobody_waits_for_it(world: World) -> None:
    """Everything that was written lies hours ahead: a pass that was planned, a gateway that was seen."""
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create()
        await until(alive, container_id, "RUNNING")
        assert (await alive.reconciler.due(10)).keys == []
        async with world.database.transaction() as session:
            ahead = "now() + interval '3 hours'"
            await session.execute(
                text(f"UPDATE containers SET reconcile_at = {ahead}, next_look_at = {ahead}")
            )
            await session.execute(text(f"UPDATE gateways SET seen_at = {ahead}"))
        assert (await alive.reconciler.due(10)).keys == [container_id]
        async with world.database.reading() as session:
            assert [one.alive for one in await list_gateways(session)] == [False], (
                "who is gone is not here for hours"
            )
        await alive.round(container_id)
        assert (await alive.reconciler.due(10)).keys == []
        row = await world.container(container_id)
        assert (row.state, row.watched_since is not None) == ("RUNNING", True)
        async with world.database.reading() as session:
            assert [one.alive for one in await list_gateways(session)] == [True], "who reports is"

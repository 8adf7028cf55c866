"""What is left in the controller of a container that is gone: no pass that is due, and nothing in memory."""

import asyncio

import pytest

from moorage.containers import service
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener
from moorage.kit.errors import EngineError
from moorage.reconcile.driver import Driver
from tests.database.reconciler_support import Life, WatchedEngine, World, eventually, life, new_world


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def _deleted(lived: Life, container_id: str) -> None:
    await lived.world.ask(service.delete_container, container_id)

    async def gone() -> bool:
        await lived.round(container_id)
        return (await lived.world.container(container_id)).deleted_at is not None

    await eventually(gone, "deleted")


async def test_a_container_that_is_gone_is_not_due_for_ever(world: World) -> None:
    """The answer to the last COMMIT was lost: the container is gone, and its pass counts as failed."""
    container_id = await world.create()
    async with life(world, WatchedEngine(world.machine)) as lived:
        await lived.round(container_id)
        await _deleted(lived, container_id)
        await lived.reconciler.postpone(container_id, ConnectionError("the connection was lost"), lived.lease)

        async def due() -> bool:
            return container_id in (await lived.reconciler.due(10)).keys

        await eventually(due, "the pass that was put off")
        await lived.reconciler.reconcile(container_id, lived.lease)
        assert not await due()


async def test_nothing_is_remembered_of_what_is_gone(world: World) -> None:
    """Neither of its health checks nor of engine calls that failed."""
    container_id = await world.create("local/deaf:latest")
    engine = WatchedEngine(world.machine)
    async with life(world, engine) as lived:
        reconciler = lived.reconciler

        async def probed() -> bool:
            await lived.round(container_id)
            return container_id in reconciler._observer._history

        await eventually(probed, "a health check that failed")
        (replica,) = await world.replicas(container_id)
        error = EngineError("the engine failed")
        reconciler._operations._pause_after(replica.id, container_id, error)
        assert reconciler._operations.engine_failing(container_id)
        await _deleted(lived, container_id)
        assert not reconciler._observer._history
        assert not reconciler._operations._failures
        assert not reconciler._calls.fresh._seen


async def test_who_does_not_lead_keeps_no_list_of_what_changed(world: World) -> None:
    """It would grow for as long as another one leads."""
    engine = WatchedEngine(world.machine)
    async with life(world, engine) as lived:
        listener = Listener(world.database.dsn)
        waiting = Driver(lived.reconciler, world.database, listener, "waiting", system_clock)
        task = asyncio.create_task(waiting.run())
        waiting.ask("ctr_changed")
        assert not waiting._asked
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_who_leads_again_begins_with_nothing(world: World) -> None:
    """A pass ended after the watches did: what it saw may be of a container that another leader deletes."""
    container_id = await world.create("local/deaf:latest")
    async with life(world, WatchedEngine(world.machine)) as lived:
        reconciler = lived.reconciler

        async def probed() -> bool:
            await lived.round(container_id)
            return container_id in reconciler._observer._history

        await eventually(probed, "a health check that failed")
        leading = asyncio.create_task(reconciler.lead(lived.lease))
        await asyncio.sleep(0)
        assert not reconciler._observer._history
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)

"""Locks of several rows of one table, and that the suite's check would see an inversion."""

import asyncio

import pytest
from reconciler_support import World, eventually, new_world
from sqlalchemy import text

from moorage.containers.repository import lock_container, mark_organization_due
from moorage.kit.database import Database
from tests.lock_order import recorder


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def waits(database: Database) -> bool:
    """Whether some transaction of this database waits for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with database.transaction() as session:
        return bool((await session.execute(text(query))).scalar_one())


async def is_free(database: Database, container_id: str) -> bool:
    query = text("SELECT id FROM containers WHERE id = :id FOR UPDATE SKIP LOCKED")
    async with database.transaction() as session:
        return (await session.execute(query, {"id": container_id})).scalar_one_or_none() is not None


async def test_several_containers_are_locked_in_the_order_of_their_ids(world: World) -> None:
    """Whatever order they lie in: they are written anew, the last first, so that a scan meets them backwards."""
    ids = sorted([await world.create() for _ in range(3)])
    async with world.database.transaction() as session:
        for container_id in reversed(ids):
            await session.execute(
                text("UPDATE containers SET message = 'moved' WHERE id = :id"), {"id": container_id}
            )

    async def mark_all() -> None:
        async with world.database.transaction() as session:
            await mark_organization_due(session, world.project.organization_id)

    async with world.database.transaction() as session:
        await lock_container(session, ids[0])
        marking = asyncio.create_task(mark_all())
        await eventually(lambda: waits(world.database), "the mark waits for the container that is locked")
        free = [await is_free(world.database, container_id) for container_id in ids]
    await marking
    assert free == [False, True, True], "who waits for the first has locked none that comes after it"


async def test_the_suite_sees_an_inversion(world: World) -> None:
    container_id = await world.create()
    async with world.database.transaction() as session:
        await session.execute(text("UPDATE credit_accounts SET held_microusd = held_microusd"))
        await lock_container(session, container_id)
    found, recorder.inversions = recorder.inversions, []
    assert [one.split(", in:")[0] for one in found] == ["containers after credit_accounts"]

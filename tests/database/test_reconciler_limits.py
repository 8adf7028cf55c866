"""What a container waits for that only a person or time can give: the operator's approval, and an hour to pass."""

from typing import Any

import pytest
from reconciler_support import WatchedEngine, World, driven, eventually, new_world
from sqlalchemy import select, text

from moorage.containers.models import ContainerRow
from moorage.containers.replica_limits.models import ReplicaLimitRequestRow
from moorage.containers.replica_limits.service import decide, find_request
from moorage.kit.clock import system_clock
from moorage.kit.database import Database


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def reaches(world: World, container_id: str, state: str, reason: str | None) -> ContainerRow:
    async def there() -> bool:
        row = await world.container(container_id)
        return (row.state, row.reason) == (state, reason)

    try:
        await eventually(there, f"{state} {reason}")
    except AssertionError:
        row = await world.container(container_id)
        print(
            "STATE",
            row.state,
            row.reason,
            row.message,
            row.reconcile_at,
            row.generation,
            row.failed_generation,
            row.image_generation,
        )
        raise
    return await world.container(container_id)


async def answer(world: World, container_id: str, *, approve: bool) -> None:
    async with world.database.transaction() as session:
        query = select(ReplicaLimitRequestRow.id).where(ReplicaLimitRequestRow.container_id == container_id)
        request_id = (await session.execute(query)).scalar_one()
        words = None if approve else "no GPUs left"
        await decide(
            session,
            world.actor,
            await find_request(session, request_id),
            approve=approve,
            answer=words,
            clock=system_clock,
        )


@pytest.mark.long
async def test_approved(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await world.create(replicas=2, max_replicas=31)
        await reaches(world, container_id, "PENDING", "awaiting_approval")
        assert world.machine.ids_of(container_id) == set(), "nothing starts before that"
        await answer(world, container_id, approve=True)
        await reaches(world, container_id, "RUNNING", None)


async def test_refused(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await world.create(replicas=2, max_replicas=31)
        await reaches(world, container_id, "PENDING", "awaiting_approval")
        await answer(world, container_id, approve=False)
        row = await reaches(world, container_id, "FAILED", "replica_limit_refused")
        assert "no GPUs left" in (row.message or "")
        assert world.machine.ids_of(container_id) == set()


@pytest.mark.long
async def test_what_failed_too_often_waits_for_the_hour(world: World) -> None:
    """It served once, and each replacement dies before it is ready: after six of them there is no seventh."""
    engine = WatchedEngine(world.machine)
    async with driven(world, engine):
        container_id = await world.create()
        await reaches(world, container_id, "RUNNING", None)
        [first] = await world.replicas(container_id)
        values: dict[str, Any] = {"id": container_id, "first": first.id}
        async with world.database.transaction() as session:
            await session.execute(
                text(
                    "INSERT INTO replicas (id, container_id, slot, generation, instance_type, state, node,"
                    " gpu_device_ids, host, host_port, port_released_at, ended_at, reason, ended_badly)"
                    " SELECT 'rep_old' || n, container_id, slot, generation, instance_type, 'removed', node,"
                    " '{}', host, host_port, now(), now() - n * interval '5 minutes', 'exited', true"
                    " FROM replicas, generate_series(1, 6) n WHERE id = :first"
                ),
                values,
            )
        world.machine.end(first.id, exit_code=1)
        row = await reaches(world, container_id, "STARTING", "start_limit")
        assert "6 times within an hour" in (row.message or "")
        assert world.machine.ids_of(container_id) <= {first.id}, "no further one was started"
        async with world.database.transaction() as session:
            await session.execute(
                text("UPDATE replicas SET ended_at = ended_at - interval '1 hour' WHERE id LIKE 'rep_old%'")
            )
            await session.execute(text("UPDATE containers SET reconcile_at = now(), changes = changes + 1"))
        await reaches(world, container_id, "RUNNING", None)

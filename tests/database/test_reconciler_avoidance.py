"""Restart elsewhere: other machines than now, for that deployment alone, and never at the price of staying down."""

import pytest
from api_support import Api, new_home
from api_support import api_fixture as api_fixture
from reconciler_support import Life, WatchedEngine, World, life, new_world
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import replace_nodes
from moorage.containers import service
from moorage.containers.avoidance import AVOID_FOR
from moorage.engines.base import NodeCapacity
from moorage.identity.actor import Actor
from moorage.kit.clock import system_clock
from moorage.kit.database import Database


async def elsewhere(session: AsyncSession, actor: Actor, container_id: str) -> service.Changed:
    until = system_clock.now() + AVOID_FOR
    return await service.restart_container(session, actor, container_id, avoid_until=until)


async def with_machines(world: World, *names: str) -> None:
    (machine,) = await WatchedEngine(world.machine).capacity()
    nodes = [
        NodeCapacity(
            name,
            "operator",
            machine.architecture,
            machine.cpu_millis,
            machine.memory_bytes // (place + 1),
            (),
        )
        for place, name in enumerate(names)
    ]
    async with world.database.transaction() as session:
        await replace_nodes(session, nodes)


async def rounds(controller: Life, container_id: str, count: int = 8) -> None:
    for _ in range(count):
        await controller.round(container_id)


async def live_nodes(world: World, container_id: str) -> list[str]:
    return [one.node for one in await world.replicas(container_id, "ready", "routed")]


@pytest.mark.long
async def test_moves_to_the_other_machine_and_is_free_again(database: Database) -> None:
    world = await new_world(database)
    await with_machines(world, "machine-a", "machine-b")
    container_id = await world.create()
    async with life(world, WatchedEngine(world.machine)) as controller:
        await rounds(controller, container_id)
        assert await live_nodes(world, container_id) == ["machine-a"], "it has more room"
        await world.ask(elsewhere, container_id)
        await rounds(controller, container_id)
        assert await live_nodes(world, container_id) == ["machine-b"]
        assert (await world.container(container_id)).state == "RUNNING"
        # The new machine is gone: what comes back may be where it was before.
        await with_machines(world, "machine-a")
        for replica in await world.replicas(container_id, "routed"):
            world.machine.end(replica.id)
        async with database.transaction() as session:  # the pause after a crash is over
            await session.execute(text("UPDATE replicas SET ended_at = ended_at - interval '5 minutes'"))
        await rounds(controller, container_id)
        async with database.transaction() as session:
            await session.execute(text("UPDATE replicas SET ended_at = ended_at - interval '5 minutes'"))
        await rounds(controller, container_id)
        assert await live_nodes(world, container_id) == ["machine-a"]


async def test_nothing_else_is_there(database: Database) -> None:
    """The old ones serve on, the reason names the machine, and the time that it waits has an end."""
    world = await new_world(database)
    await with_machines(world, "machine-a")
    container_id = await world.create()
    async with life(world, WatchedEngine(world.machine)) as controller:
        await rounds(controller, container_id)
        await world.ask(elsewhere, container_id)
        await rounds(controller, container_id)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("RUNNING", "no_capacity")
        assert row.message is not None
        assert "on another machine than machine-a" in row.message
        assert [one.generation for one in await world.replicas(container_id, "routed")] == [1]

        async with database.transaction() as session:
            await session.execute(
                text(
                    "UPDATE containers SET avoidance = "
                    "jsonb_set(avoidance, '{until}', to_jsonb('2026-01-01T00:00:00+00:00'::text))"
                )
            )
        await rounds(controller, container_id)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("RUNNING", None)
        assert [one.generation for one in await world.replicas(container_id, "routed")] == [2]


@pytest.mark.long
async def test_of_one_that_failed_the_machine_where_it_failed(database: Database) -> None:
    world = await new_world(database)
    await with_machines(world, "machine-a", "machine-b")
    container_id = await world.create("local/deaf:latest", health_timeout_s=0)
    async with life(world, WatchedEngine(world.machine)) as controller:
        await rounds(controller, container_id)
        assert (await world.container(container_id)).state == "FAILED"
        await world.ask(elsewhere, container_id)
        await rounds(controller, container_id)
        assert [one.node for one in await world.replicas(container_id)] == ["machine-a", "machine-b"]
        # A plain restart forgets it.
        await world.ask(service.restart_container, container_id)
        await rounds(controller, container_id)
        newest = [one.node for one in await world.replicas(container_id) if one.generation == 3]
        assert newest == ["machine-a"]


async def test_over_http(api: Api) -> None:
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    await api.new_replica(container_id, node="machine-a")
    path = f"/containers/{container_id}/restart"
    assert (await api.post(home.admin, path, {"avoid_nodes": True})).status_code == 422
    answer = await api.post(home.admin, path, {"avoid_current_nodes": True})
    assert answer.status_code == 202, answer.text
    [(nodes, generation)] = await api.rows(
        "SELECT avoidance->'nodes', avoidance->'generation' FROM containers WHERE id = :id", id=container_id
    )
    assert (nodes, generation) == (["machine-a"], answer.json()["generation"])
    activity = (await api.get(home.admin, f"/containers/{container_id}/activity")).json()["items"][0]
    assert (activity["kind"], activity["details"]["avoided_nodes"]) == ("container.restart", ["machine-a"])

"""What the gateways say about health becomes replacements: one at a time, and only of what answers nothing."""

import asyncio
from datetime import datetime

import pytest
from reconciler_support import Life, WatchedEngine, World, life, new_world
from sqlalchemy import select, text

from moorage.containers.models import ReplicaRouteRow
from moorage.gateway.liveness import Health
from moorage.kit.database import Database


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def failing_since(world: World, replica_id: str) -> datetime | None:
    query = select(ReplicaRouteRow.failing_since).where(ReplicaRouteRow.replica_id == replica_id)
    async with world.database.transaction() as session:
        return (await session.execute(query)).scalar_one()


async def a_minute_passes(world: World) -> None:
    async with world.database.transaction() as session:
        past = text("UPDATE replica_routes SET failing_since = failing_since - interval '61 seconds'")
        await session.execute(past)
        for column in ("draining_at", "ended_at"):
            await session.execute(text(f"UPDATE replicas SET {column} = {column} - interval '61 seconds'"))


async def until_routed(world: World, controller: Life, container_id: str, count: int) -> list[str]:
    for _ in range(12):
        await controller.round(container_id)
        routed = await world.replicas(container_id, "routed")
        if len(routed) == count:
            return [row.id for row in routed]
    raise AssertionError(f"{count} replicas were never routed")


async def test_since_when_it_fails_begins_anew_with_every_answer(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await world.create()
        (replica_id,) = await until_routed(world, controller, container_id, 1)
        assert await failing_since(world, replica_id) is None
        world.failing[replica_id] = Health("timeout", None, answered=7)
        await world.gateway_step()
        first = await failing_since(world, replica_id)
        assert first is not None
        world.failing[replica_id] = Health("status", 503, answered=7)
        await world.gateway_step()
        assert await failing_since(world, replica_id) == first, "it fails in another way, but goes on failing"
        world.failing[replica_id] = Health("status", 503, answered=8)
        await world.gateway_step()
        second = await failing_since(world, replica_id)
        assert second is not None
        assert second > first, "it is slow, not stuck"
        del world.failing[replica_id]
        await world.gateway_step()
        assert await failing_since(world, replica_id) is None


async def test_two_stuck_replicas_are_replaced_one_after_the_other(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await world.create(replicas=3)
        replicas = await until_routed(world, controller, container_id, 3)
        for replica_id in replicas[:2]:
            world.failing[replica_id] = Health("timeout", None, answered=0)
        await world.gateway_step()
        await controller.round(container_id)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("RUNNING", "health_check_timeout")
        assert "2 of 3 replicas" in (row.message or "")

        fewest = 3
        for _ in range(20):
            await a_minute_passes(world)
            await controller.round(container_id)
            given_up = [one for one in await world.replicas(container_id) if one.ended_badly]
            fewest = min(fewest, len(await world.replicas(container_id, "routed")))
            assert (await world.container(container_id)).state == "RUNNING"
        assert fewest == 2, "one at a time"
        assert len(given_up) == 2
        assert {one.reason for one in given_up} == {"health_check_timeout"}
        for one in given_up:
            assert one.probe_history is not None
            assert [(run["by"], run["outcome"]) for run in one.probe_history][-1] == ("gateway", "timeout")
        routed = {one.id for one in await world.replicas(container_id, "routed")}
        assert routed & set(replicas) == {replicas[2]}, "who answers stays"
        assert world.machine.twins == []
        await controller.round(container_id)
        assert (await world.container(container_id)).reason is None


async def test_the_only_replica_that_is_stuck_is_replaced_and_the_container_says_why(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await world.create()
        (replica_id,) = await until_routed(world, controller, container_id, 1)
        world.failing[replica_id] = Health("status", 500, answered=3)
        await world.gateway_step()
        await a_minute_passes(world)
        await controller.round(container_id)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("STARTING", "health_check_status")
        assert "GET /health answered 500" in (row.message or "")
        await a_minute_passes(world)
        assert await until_routed(world, controller, container_id, 1) != [replica_id]
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("RUNNING", None)


async def test_while_what_failed_does_not_end_a_slot_has_two_processes_at_most(world: World) -> None:
    """The engine stops nothing for a while, and every successor is stuck as well."""
    engine, engine_stops = WatchedEngine(world.machine), asyncio.Event()

    async def before(name: str) -> None:
        if name == "stop":
            await engine_stops.wait()

    engine.before = before
    async with life(world, engine) as controller:
        container_id = await world.create(replicas=2)
        _, healthy = await until_routed(world, controller, container_id, 2)
        most = 0
        for _ in range(20):
            for row in await world.replicas(container_id, "routed"):
                if row.id != healthy:
                    world.failing[row.id] = Health("timeout", None, answered=0)
            await a_minute_passes(world)
            await controller.reconciler.reconcile(container_id, controller.lease)
            await begun_but_stops(controller)
            await world.gateway_step()
            most = max(most, sum(one.slot == 0 for one in world.machine.running()))
        failed = [row for row in await world.replicas(container_id, "draining") if row.ended_badly]
        assert (most, len(failed)) == (2, 2), "what failed, and its successor, which failed too"
        world.failing.clear()
        engine_stops.set()
        await a_minute_passes(world)
        assert healthy in await until_routed(world, controller, container_id, 2)


async def begun_but_stops(controller: Life) -> None:
    others = [one for one in controller.reconciler._operations.under_way() if "stop" not in one.get_name()]
    if others:
        await asyncio.wait(others, timeout=10)

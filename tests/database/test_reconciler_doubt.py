"""Two leaders, an engine that lies or is away, wishes that change meanwhile, and objects that nobody knows."""

import asyncio
from datetime import datetime, timedelta

import pytest
from reconciler_support import Life, WatchedEngine, World, driven, eventually, life, new_world
from sqlalchemy import text

from moorage.containers import service
from moorage.engines.base import ReplicaSpec
from moorage.engines.simulated_machine import engine_ref
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, database_now
from moorage.kit.errors import EngineError, LeaseLostError
from moorage.kit.ids import ContainerId, OrganizationId, ProjectId, ReplicaId, new_replica_id

CALLS = ("ensure_image", "inspect", "start", "stop", "remove")


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


class Pause:
    """Holds the first call of one kind until it is let go."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reached, self.resume = asyncio.Event(), asyncio.Event()

    async def __call__(self, name: str) -> None:
        if name == self.name and not self.reached.is_set():
            self.reached.set()
            await self.resume.wait()


async def go_on(alive: Life, container_id: str, state: str) -> None:
    for _ in range(20):
        row = await alive.world.container(container_id)
        settled = state == "RUNNING" or await alive.world.nothing_left(container_id)
        if row.state == state and settled:
            return
        await alive.round(container_id)
    raise AssertionError(f"not {state} after 20 passes")


async def passes_until(alive: Life, container_id: str, pause: Pause) -> None:
    async def reached() -> bool:
        await alive.reconciler.reconcile(container_id, alive.lease)
        return pause.reached.is_set()

    await eventually(reached, f"the pause in {pause.name}")


async def everything(world: World, container_id: str) -> list[object]:
    """The rows that a controller writes, to the last column."""
    async with world.database.transaction() as session:
        rows = await session.execute(
            text(
                "SELECT to_jsonb(c) FROM containers c WHERE id = :id UNION ALL "
                "SELECT to_jsonb(r) FROM replicas r WHERE container_id = :id"
            ),
            {"id": container_id},
        )
        return sorted(rows.scalars(), key=str)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.long
async def test_a_leader_that_was_asleep_writes_nothing(world: World, call: str, moment: str) -> None:
    """It sleeps in the middle of an engine call and wakes when another has long done its work."""
    container_id = await world.create()
    engine, pause = WatchedEngine(world.machine), Pause(call)
    async with life(world, engine) as stale:
        if call in ("stop", "remove"):
            await go_on(stale, container_id, "RUNNING")
            await world.ask(service.stop_container, container_id)
        setattr(engine, moment, pause)

        async def lead() -> None:
            while True:
                await stale.reconciler.reconcile(container_id, stale.lease)
                await stale.finish_operations()
                await world.gateway_step()
                await world.collector_step()

        leading = asyncio.create_task(lead())
        await asyncio.wait_for(pause.reached.wait(), timeout=20)
        async with life(world, WatchedEngine(world.machine)) as second:
            await go_on(second, container_id, "STOPPED" if call in ("stop", "remove") else "RUNNING")
            stale.lease.deadline_s = system_clock.monotonic()  # it slept, and its clock did not
            before = await everything(world, container_id)
            pause.resume.set()
            with pytest.raises(LeaseLostError):
                await asyncio.wait_for(leading, timeout=20)
            after = await everything(world, container_id)
            assert [_without_hints(one) for one in after] == [_without_hints(one) for one in before]
            await go_on(second, container_id, "STOPPED" if call in ("stop", "remove") else "RUNNING")
    assert world.machine.twins == []
    assert len(world.machine.replicas) == (0 if call in ("stop", "remove") else 1)


def _without_hints(row: object) -> object:
    """Asking for another pass is free to everybody; all else is the leader's."""
    assert isinstance(row, dict)
    return {name: value for name, value in row.items() if name not in ("changes", "reconcile_at")}


async def test_a_start_that_arrives_after_the_stop_is_undone_by_the_sweep(world: World) -> None:
    container_id = await world.create()
    engine, pause = WatchedEngine(world.machine), Pause("start")
    engine.before = pause
    async with life(world, engine) as stale:
        await passes_until(stale, container_id, pause)
        await world.ask(service.stop_container, container_id)
        async with life(world, WatchedEngine(world.machine)) as second:
            await go_on(second, container_id, "STOPPED")
            pause.resume.set()
            await stale.finish_operations()
            assert len(world.machine.running()) == 1, "the engine heard of it too late"
            leading = asyncio.create_task(second.reconciler.lead(second.lease))
            await eventually(lambda: world.nothing_left(container_id), "the stray is gone")
            leading.cancel()
            await asyncio.gather(leading, return_exceptions=True)


@pytest.mark.long
async def test_one_missing_of_one_is_replaced(world: World) -> None:
    container_id = await world.create()
    async with driven(world, WatchedEngine(world.machine)):
        await eventually(lambda: _routed(world, container_id), "it serves")
        lost = (await world.replicas(container_id, "routed"))[0].id
        world.machine.lose(lost)

        async def replaced() -> bool:
            routed = await world.replicas(container_id, "routed")
            return bool(routed) and routed[0].id != lost

        await eventually(replaced, "another one serves")
        ended = next(row for row in await world.replicas(container_id) if row.id == lost)
        assert ended.reason == "node_lost"


async def _routed(world: World, container_id: str) -> bool:
    return bool(await world.replicas(container_id, "routed"))


async def test_an_engine_that_is_away_is_waited_for_and_said_so(world: World) -> None:
    engine = WatchedEngine(world.machine)

    async def away(_: str) -> None:
        raise EngineError("no answer")

    async with life(world, engine) as alive:
        new, starting, serving = [await world.create() for _ in range(3)]
        await go_on(alive, serving, "RUNNING")
        world.machine.health_status = 503
        for _ in range(3):
            await alive.round(starting)
        world.machine.health_status = 200
        engine.before = away
        for pause_s in (1, 2, 4, 8):
            began = await _database_now(world)
            await alive.round(starting)
            due, ended = (await world.container(starting)).reconcile_at, await _database_now(world)
            assert due is not None
            assert began <= due - timedelta(seconds=pause_s) <= ended
            await alive.round(serving)
        await eventually(lambda: _says_engine_error(alive, new), "the new one says what it waits for")
        said = {name: await world.container(name) for name in (new, starting, serving)}
        assert (said[starting].state, said[starting].reason) == ("STARTING", "engine_error")
        assert (said[serving].state, said[serving].reason) == ("RUNNING", None), "it serves all the same"
        engine.before = WatchedEngine(world.machine).before
        await alive.finish_operations()
        for container_id in said:
            await alive.round(container_id)
            await go_on(alive, container_id, "RUNNING")
            row = await world.container(container_id)
            assert (row.state, row.reason, row.failed_passes) == ("RUNNING", None, 0)


async def _database_now(world: World) -> datetime:
    async with world.database.transaction() as session:
        return await database_now(session)


async def _says_engine_error(alive: Life, container_id: str) -> bool:
    await alive.round(container_id)
    return (await alive.world.container(container_id)).reason == "engine_error"


async def test_one_container_that_fails_does_not_hold_up_the_others(world: World) -> None:
    engine = WatchedEngine(world.machine)
    async with driven(world, engine):
        bad = await world.create()
        await eventually(lambda: _routed(world, bad), "it serves")
        engine.hidden = {(await world.replicas(bad))[0].id}

        async def hidden_fails(name: str) -> None:
            if name == "list_replicas":
                raise EngineError("no list today")

        engine.before = hidden_fails
        async with world.database.transaction() as session:
            await session.execute(text("UPDATE containers SET reconcile_at = now()"))
        good = await world.create()
        await eventually(lambda: _routed(world, good), "the other one is served meanwhile")
        assert (await world.container(bad)).failed_passes > 0


@pytest.mark.parametrize("call", ["ensure_image", "inspect", "start"])
@pytest.mark.long
async def test_a_stop_during_a_pass_is_not_lost(world: World, call: str) -> None:
    container_id = await world.create(replicas=2)
    engine, pause = WatchedEngine(world.machine), Pause(call)
    engine.before = pause
    async with driven(world, engine):
        await asyncio.wait_for(pause.reached.wait(), timeout=20)
        await world.ask(service.stop_container, container_id)
        pause.resume.set()

        async def stopped() -> bool:
            row = await world.container(container_id)
            return row.state == "STOPPED" and await world.nothing_left(container_id)

        await eventually(stopped, "it stops")


async def test_a_stop_during_a_start_that_fails_is_not_stuck(world: World) -> None:
    container_id = await world.create("local/strict:latest", start_command="launch")
    engine, pause = WatchedEngine(world.machine), Pause("start")
    engine.before = pause
    async with life(world, engine) as alive:
        await passes_until(alive, container_id, pause)
        await world.ask(service.stop_container, container_id)
        await alive.reconciler.reconcile(container_id, alive.lease)
        assert [row.state for row in await world.replicas(container_id)] == ["draining"]
        assert (await world.replicas(container_id))[0].port_released_at is None, "its port is still its own"
        pause.resume.set()
        await alive.finish_operations()
        await go_on(alive, container_id, "STOPPED")


@pytest.mark.long
async def test_unknown_objects_are_given_a_quarter_of_an_hour(world: World) -> None:
    engine = WatchedEngine(world.machine)
    unknown = ReplicaSpec(
        replica_id=ReplicaId(new_replica_id()),
        container_id=ContainerId("ctr_unknown"),
        project_id=ProjectId("prj_unknown"),
        organization_id=OrganizationId("org_unknown"),
        slot=0,
        generation=1,
        image=engine_ref("local/deaf:latest"),
        command=None,
        environment={},
        port=8000,
        host_port=13999,
        vcpu_millis=100,
        memory_bytes=2**20,
        disk_bytes=2**20,
    )
    await engine.start(unknown)
    async with life(world, engine) as alive:
        sweeps_s: list[float] = []
        removed_s: list[float] = []

        async def note(name: str) -> None:
            noted = {"list_replicas": sweeps_s, "remove": removed_s}.get(name, [])
            noted.append(alive.clock.monotonic())

        engine.after = note

        async def removed() -> bool:
            await alive.clock.advance(15)
            return bool(removed_s)

        leading = asyncio.create_task(alive.reconciler.lead(alive.lease))
        await eventually(removed, "it is removed in the end")
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
    assert not world.machine.replicas
    assert removed_s[0] - sweeps_s[0] >= 15 * 60
    assert len(sweeps_s) > 10, "it was seen many times before"

"""What one organization, one hanging server or one failing watch does to the engine calls of all others: nothing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from reconciler_support import (
    HANGS,
    Life,
    WatchedEngine,
    World,
    driven,
    eventually,
    life,
    neighbour_of,
    new_world,
)

from moorage.containers import service, suspension
from moorage.containers.reconciler import prober
from moorage.engines.base import ObservedReplica, ReplicaSpec
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.kit.ids import ContainerId
from moorage.reconcile.driver import MAX_OBJECTS_AT_ONCE


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


class SlowEngine(WatchedEngine):
    """Its stops, or the starts of one organization, last until they are let go."""

    def __init__(self, world: World) -> None:
        super().__init__(world.machine)
        self.slow_organization: str | None = None
        self.let_go = asyncio.Event()
        self.waiting: Counter[str] = Counter()

    async def start(self, spec: ReplicaSpec) -> ObservedReplica:
        if spec.organization_id == self.slow_organization:
            await self._wait("start")
        return await super().start(spec)

    async def stop(self, engine_id: str, grace_s: float) -> None:
        await self._wait("stop")
        await super().stop(engine_id, grace_s)

    async def _wait(self, call: str) -> None:
        self.waiting[call] += 1
        await self.let_go.wait()
        self.waiting[call] -= 1


async def serves(world: World, *container_ids: str) -> bool:
    return all([(await world.container(name)).state == "RUNNING" for name in container_ids])


@pytest.mark.long
async def test_thirty_stops_do_not_hold_up_anybodys_start(world: World) -> None:
    engine, neighbour = SlowEngine(world), await neighbour_of(world)
    async with driven(world, engine):
        going = [await world.create(replicas=3) for _ in range(10)]
        await eventually(lambda: serves(world, *going), "all serve", timeout_s=40)
        for container_id in going:
            await world.ask(service.delete_container, container_id)

        async def stops_wait() -> bool:
            return engine.waiting["stop"] >= 8

        await eventually(stops_wait, "more stops than there used to be places for everything")
        theirs = await neighbour.create()
        await eventually(lambda: serves(world, theirs), "the neighbour's start does not wait for stops")
        own = await world.create()
        await eventually(lambda: serves(world, own), "nor does one of the same organization")
        assert engine.waiting["stop"] >= 8, "they still wait"
        engine.let_go.set()

        async def all_gone() -> bool:
            return all([(await world.container(name)).deleted_at is not None for name in going])

        await eventually(all_gone, "and then all of them are stopped", timeout_s=40)


@pytest.mark.long
async def test_the_starts_of_one_organization_leave_places_to_others(world: World) -> None:
    engine, neighbour = SlowEngine(world), await neighbour_of(world)
    engine.slow_organization = world.project.organization_id
    async with driven(world, engine):
        slow = [await world.create(replicas=3) for _ in range(10)]

        async def starts_wait() -> bool:
            return engine.waiting["start"] >= 6

        await eventually(starts_wait, "it has all the places that it may have")
        theirs = await neighbour.create(replicas=2)
        await eventually(lambda: serves(world, theirs), "the neighbour finds one")
        engine.let_go.set()
        await eventually(lambda: serves(world, *slow), "all of them start in the end", timeout_s=40)


@pytest.mark.long
async def test_servers_that_hang_hold_up_no_pass(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than there are passes at once, and each would be waited for longer than this test."""
    monkeypatch.setattr(prober, "PROBE_TIMEOUT_S", 60.0)
    async with driven(world, WatchedEngine(world.machine)):
        hanging = [await world.create(health_path=HANGS) for _ in range(MAX_OBJECTS_AT_ONCE + 3)]

        async def all_start() -> bool:
            return all([bool(await world.replicas(name, "starting")) for name in hanging])

        await eventually(all_start, "they start", timeout_s=40)
        good = await (await neighbour_of(world)).create()
        await eventually(lambda: serves(world, good), "another one is deployed meanwhile")
        await world.ask(service.stop_container, hanging[0])

        async def stopped() -> bool:
            return (await world.container(hanging[0])).state == "STOPPED"

        await eventually(stopped, "and one that hangs can be stopped at once")


class DeafEngine(WatchedEngine):
    """Whose words, or whose list, break off."""

    def __init__(self, world: World) -> None:
        super().__init__(world.machine)
        self.broken: set[str] = set()
        self.begun: Counter[str] = Counter()
        self.before = self._break

    async def _break(self, name: str) -> None:
        self.begun[name] += 1
        if name in self.broken:
            raise EngineError(f"{name} broke off")

    async def _words(self) -> AsyncIterator[ContainerId]:
        self.begun["watch"] += 1
        inner = super().watch()
        while "watch" not in self.broken:
            try:
                async with asyncio.timeout(0.02):
                    yield await anext(inner)
            except TimeoutError:
                inner = super().watch()
        raise EngineError("watch broke off")

    def watch(self) -> AsyncIterator[ContainerId]:
        return self._words()


@pytest.mark.parametrize("broken", ["watch", "list_replicas", "disk_space"])
@pytest.mark.long
async def test_a_watch_that_fails_begins_again_and_nothing_under_way_is_cancelled(
    world: World, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, held, starts = DeafEngine(world), asyncio.Event(), Counter[str]()
    inner_start = engine.start

    async def slow_start(spec: ReplicaSpec) -> ObservedReplica:
        starts["begun"] += 1
        try:
            await held.wait()
        except asyncio.CancelledError:
            starts["cancelled"] += 1
            raise
        return await inner_start(spec)

    async def disk_space() -> None:
        engine.begun["disk_space"] += 1
        if "disk_space" in engine.broken:
            raise ValueError("a disk of another kind")

    monkeypatch.setattr(engine, "start", slow_start)
    monkeypatch.setattr(engine, "disk_space", disk_space)
    async with driven(world, engine):
        container_id = await world.create()

        async def begun() -> bool:
            return starts["begun"] == 1 and engine.begun["list_replicas"] > 0 and engine.begun["watch"] > 0

        await eventually(begun, "it is being started")
        engine.broken = {broken}
        before = engine.begun.copy()
        if broken == "list_replicas":
            engine.broken = {"list_replicas", "watch"}  # A new watch asks for a sweep at once.

        async def tried_again() -> bool:
            return engine.begun[broken] >= before[broken] + 2

        await eventually(tried_again, f"{broken} is tried again")
        engine.broken = set()
        held.set()
        await eventually(lambda: serves(world, container_id), "it serves")
    assert starts == Counter({"begun": 1})


async def drained(alive: Life, container_id: str) -> None:
    """Passes without a word of the gateway, which therefore still sends requests."""
    for _ in range(3):
        await alive.reconciler.reconcile(container_id, alive.lease)
        await alive.finish_operations()


async def test_a_suspended_container_that_is_resumed_during_its_drain_has_one_process(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(replicas=2)
        for _ in range(4):
            await alive.round(container_id)
        assert await serves(world, container_id)
        organization_id = world.project.organization_id
        async with world.database.transaction() as session:
            await suspension.suspend(session, organization_id, "usr_operator", "abuse")
        await drained(alive, container_id)
        assert len(await world.replicas(container_id, "draining")) == 2
        async with world.database.transaction() as session:
            await suspension.resume(session, organization_id, "usr_operator")
        await drained(alive, container_id)
        assert len(world.machine.running()) == 2
        for _ in range(6):
            await alive.round(container_id)
        assert await serves(world, container_id)
        assert len(await world.replicas(container_id, "routed")) == 2
    assert world.machine.twins == []


class LateEngine(WatchedEngine):
    """The start in one slot ends only while a pass looks at what else there is."""

    def __init__(self, world: World, slot: int) -> None:
        super().__init__(world.machine)
        self.slot = slot
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()

    async def start(self, spec: ReplicaSpec) -> ObservedReplica:
        if spec.slot == self.slot:
            self.begun.set()
            await self.let_go.wait()
        return await super().start(spec)


async def test_what_ends_while_a_pass_looks_is_not_taken_for_gone(world: World) -> None:
    """Nobody looked at it, because its start was under way then: that says nothing of whether it is there."""
    engine = LateEngine(world, slot=1)
    async with life(world, engine) as alive:
        container_id = await world.create(replicas=2)
        await alive.reconciler.reconcile(container_id, alive.lease)
        await engine.begun.wait()
        organization_id = world.project.organization_id
        async with world.database.transaction() as session:
            await suspension.suspend(session, organization_id, "usr_operator", "abuse")
        await alive.reconciler.reconcile(container_id, alive.lease)
        other, late = await world.replicas(container_id)
        assert (late.slot, late.state) == (1, "draining")

        async def other_is_at_rest() -> bool:
            return not alive.reconciler._operations.busy(other.id)

        await eventually(other_is_at_rest, "the pass that follows has something to look at")
        async with world.database.transaction() as session:
            await suspension.resume(session, organization_id, "usr_operator")

        async def start_ends(call: str) -> None:
            if call == "inspect":
                engine.let_go.set()
                await alive.finish_operations()

        engine.before = start_ends
        await alive.reconciler.reconcile(container_id, alive.lease)
        assert world.machine.runs(late.id)
        [row] = [row for row in await world.replicas(container_id) if row.slot == 1]
        assert (row.id, row.state) == (late.id, "draining"), "its end is waited for"
        for _ in range(6):
            await alive.round(container_id)
        assert await serves(world, container_id)
        assert len(await world.replicas(container_id, "routed")) == 2
    assert world.machine.twins == []

"""Of a thousand machines most have nothing to look at: they are asked less, and what begins there is seen as soon as it was."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from machines_support import Fleet, leading, new_fleet, serving
from reconciler_support import KEYRING, SETTINGS, WatchedEngine, World, eventually
from sqlalchemy import event
from test_reconciler_gpus import with_gpus

from moorage.catalog.repository import find_instance_type, nodes_for, nodes_of, replace_nodes_of, some_nodes
from moorage.containers.reconciler.reconciler import ContainersReconciler
from moorage.containers.spec import ContainerSettings
from moorage.engines.base import (
    LOCAL_ENGINE,
    DiskSpace,
    GpuDevice,
    Image,
    ImageRequest,
    MachineKey,
    PullProgress,
)
from moorage.engines.engines import Engines
from moorage.kit.clock import VirtualClock
from moorage.kit.database import Database
from moorage.kit.errors import ImageError

SPACE = DiskSpace(1000 * 2**30, 500 * 2**30)
MANY = 300
"""Machines: those of which nothing is known to change are looked at every 3 s."""


class CountingEngine(WatchedEngine):
    """Says how often it was asked what."""

    def __init__(self, machine: Any) -> None:
        super().__init__(machine)
        self.asked = Counter[str]()
        self.before = self._count

    async def _count(self, call: str) -> None:
        self.asked[call] += 1

    async def disk_space(self) -> DiskSpace | None:
        self.asked["disk_space"] += 1
        return await super().disk_space()


@pytest.fixture
async def fleet(database: Database) -> Fleet:
    return await new_fleet(database)


def watching(world: World, engine: WatchedEngine, clock: VirtualClock) -> ContainersReconciler:
    """One of many engines, all of the same machine."""
    engines = Engines({LOCAL_ENGINE: engine, **{f"mch_{number}": engine for number in range(MANY - 1)}})
    assert engines.look_every_s() == 3
    return ContainersReconciler(world.database, engines, KEYRING, SETTINGS, clock)


async def lasts_s(rest: Callable[[], Coroutine[Any, Any, None]], clock: VirtualClock) -> float:
    """How long a pause is."""
    began_s = clock.monotonic()
    resting = asyncio.create_task(rest())
    await clock.advance(0.0)
    while not resting.done():
        await clock.advance(0.125)
        assert clock.monotonic() - began_s < 120, "it never ends"
    return clock.monotonic() - began_s


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    engine = database._engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)


async def test_a_disk_is_looked_at_every_second_only_where_something_is(fleet: Fleet) -> None:
    clock, engine = VirtualClock(), WatchedEngine(fleet.world.machine)
    watch = watching(fleet.world, engine, clock)._disk_watch

    async def rest_s() -> float:
        return await lasts_s(lambda: watch._rest(LOCAL_ENGINE), clock)

    await rest_s()  # to its turn
    assert await rest_s() <= 1.25, "it was not looked at yet"
    await watch._look(LOCAL_ENGINE, SPACE)
    await rest_s()
    assert 2.5 <= await rest_s() <= 3.25
    resting = asyncio.create_task(watch._rest(LOCAL_ENGINE))
    await clock.advance(0.0)
    watch.something_begins(LOCAL_ENGINE)
    await asyncio.wait_for(resting, timeout=5)  # at once
    watch._pauses.begin_round(LOCAL_ENGINE)
    assert await rest_s() <= 1.25
    assert await rest_s() <= 1.25, "until the next look has seen what became of it"
    await watch._look(LOCAL_ENGINE, SPACE)
    assert LOCAL_ENGINE in watch._empty, "its row was never written"


async def test_what_is_to_start_counts_before_its_engine_has_it(fleet: Fleet) -> None:
    fleet.world.machine.waits_s = fleet.second.waits_s = 3600
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        watch = alive.reconciler._disk_watch
        for name in fleet.machines:
            await watch._look(name, SPACE)
        assert watch._empty == set(fleet.machines)
        for _ in range(3):
            await alive.round(container_id)
        assert {row.state for row in await fleet.world.replicas(container_id)} == {"requested"}
        assert watch._begun == set(fleet.machines)
        for name in fleet.machines:
            await watch._look(name, SPACE)
        assert (watch._begun, watch._empty) == (set(), set())


async def test_one_look_at_a_disk_is_enough_for_all_who_watch_it(fleet: Fleet) -> None:
    clock, engine = VirtualClock(), CountingEngine(fleet.world.machine)
    fleet.world.machine.disk_space = SPACE
    reconciler = watching(fleet.world, engine, clock)
    watch = reconciler._disk_watch
    watch._seen[LOCAL_ENGINE] = clock.monotonic(), replace(SPACE, free_bytes=7)
    assert await reconciler._cache_watch.space(LOCAL_ENGINE) == replace(SPACE, free_bytes=7)
    assert not engine.asked["disk_space"]
    await clock.advance(3)
    assert await reconciler._cache_watch.space(LOCAL_ENGINE) == SPACE, "nobody looked for a while"
    assert engine.asked["disk_space"] == 1


async def test_where_there_is_no_cache_nothing_is_written_and_nobody_looks_until_something_begins(
    fleet: Fleet,
) -> None:
    async with leading(fleet) as alive:
        await serving(alive, await fleet.world.create(), 1)
        watch = alive.reconciler._cache_watch
        with statements(fleet.world.database) as said:
            await watch.look(LOCAL_ENGINE, SPACE, alive.lease)
        assert said, "it was looked for"
        assert not [one for one in said if not one.startswith("SELECT")]
    clock = VirtualClock()
    watch = watching(fleet.world, WatchedEngine(fleet.world.machine), clock)._cache_watch
    async with leading(fleet) as alive:
        await watch.look(LOCAL_ENGINE, SPACE, alive.lease)
        next_in_s = watch._last[LOCAL_ENGINE].next_in_s
        assert await lasts_s(lambda: watch._rest(LOCAL_ENGINE), clock) == pytest.approx(next_in_s, abs=0.125)
        await watch.look(LOCAL_ENGINE, SPACE, alive.lease)
        assert await lasts_s(lambda: watch._rest(LOCAL_ENGINE), clock) == pytest.approx(60.0, abs=1)
        await watch.look(LOCAL_ENGINE, SPACE, alive.lease)
        resting = asyncio.create_task(watch._rest(LOCAL_ENGINE))
        await clock.advance(0.0)
        watch.hurry(LOCAL_ENGINE)
        await asyncio.wait_for(resting, timeout=5)
        assert watch._is_due(LOCAL_ENGINE, SPACE)
        # One with a cache is watched every second.
        container_id = await fleet.world.create("local/model:latest", cache={"size_gib": 20})
        await serving(alive, container_id, 1)
        for name in fleet.machines:
            await alive.reconciler._cache_watch.look(name, SPACE, alive.lease)
        (with_cache,) = {one.engine for one in await fleet.world.replicas(container_id)}
        assert with_cache not in alive.reconciler._cache_watch._bare


async def test_a_machine_without_gpus_is_asked_about_none_until_it_has_some(fleet: Fleet) -> None:
    clock, engine = VirtualClock(), WatchedEngine(fleet.world.machine)
    watch = watching(fleet.world, engine, clock)._gpu_watch
    async with leading(fleet) as alive:
        running = asyncio.create_task(watch.run(LOCAL_ENGINE, alive.lease))

        async def looked() -> bool:
            return bool(said)

        async def rests() -> bool:
            return bool(clock._sleepers)

        try:
            with statements(fleet.world.database) as said:
                await eventually(looked, "it looks before it knows")
                await eventually(rests, "and pauses")
                watch.described(LOCAL_ENGINE, await engine.capacity())
                said.clear()
                await clock.advance(3)
                await eventually(looked, "once more")
                await eventually(rests, "and pauses for longer")
                said.clear()
                await clock.advance(watch.engines.turn_in_s(LOCAL_ENGINE, 60.0, clock.monotonic()) - 1)
                assert not said
                fleet.world.machine.gpus = (GpuDevice("GPU-0", "NVIDIA H200", 141 * 2**30),)
                watch.described(LOCAL_ENGINE, await engine.capacity())
                await eventually(looked, "at once")
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_some_machines_are_found_without_reading_all(fleet: Fleet) -> None:
    await with_gpus(fleet.world, 2)
    (node,) = await fleet.second_engine.capacity()
    described = {f"mch_{number:02}": [replace(node, name=f"rack-{number}")] for number in range(40)}
    async with fleet.world.database.transaction() as session:
        await replace_nodes_of(session, described)
        cpu, gpu = [await find_instance_type(session, name) for name in ("cpu-nano", "gpu-1")]
        assert cpu is not None
        assert gpu is not None
        seen = Counter[MachineKey]()
        for _ in range(40):
            found = await some_nodes(session, cpu, 10)
            keys = {one.key for one in found}
            assert len(found) == len(keys) == 10
            seen.update(keys)
        assert len(seen) > 30, "not always the same ones"
        assert len(await some_nodes(session, cpu, 100)) == 42
        with_gpu = {MachineKey(LOCAL_ENGINE, "simulated")}
        assert {one.key for one in await some_nodes(session, gpu, 10)} == with_gpu
        assert {one.key for one in await nodes_for(session, gpu)} == with_gpu
        wanted = {
            MachineKey("mch_07", "rack-7"),
            MachineKey("mch_08", "rack-9"),
            MachineKey("mch_99", "rack-99"),
        }
        assert {one.key for one in await nodes_of(session, wanted)} == {MachineKey("mch_07", "rack-7")}


async def test_replicas_are_found_by_their_engine_with_an_index(fleet: Fleet) -> None:
    async with fleet.world.database.transaction() as session:
        connection = await session.connection()
        await connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        plan = await connection.exec_driver_sql(
            "EXPLAIN SELECT id FROM replicas WHERE state <> 'removed' AND engine = ANY (ARRAY['a', 'b'])"
        )
        assert "ix_replicas_engine" in "\n".join(row[0] for row in plan)


async def test_which_of_many_machines_have_a_local_image_is_remembered_for_a_moment(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leading(fleet) as alive:
        calls, asked = alive.reconciler._calls, Counter[str]()

        def engine_named(name: str) -> WatchedEngine:
            engine = WatchedEngine(fleet.world.machine)
            honest = engine.ensure_image

            async def told(request: ImageRequest, on_progress: Callable[[PullProgress], None]) -> Image:
                asked[name] += 1
                if name == "mch_3":
                    raise ImageError("It was not built there.", code="image_not_found")
                return await honest(request, on_progress)

            monkeypatch.setattr(engine, "ensure_image", told)
            return engine

        image = ContainerSettings.from_json(
            (await fleet.world.container(await fleet.world.create())).settings
        ).image
        fleet.engines.add("mch_3", engine_named("mch_3"))
        fleet.engines.add("mch_4", engine_named("mch_4"))
        both = {"mch_3", "mch_4"}
        for _ in range(2):
            assert await calls.engines_with(image, both) == {"mch_4"}
        assert asked == {"mch_3": 2, "mch_4": 2}, "of few, each is asked each time"
        for number in range(5, 12):
            fleet.engines.add(f"mch_{number}", engine_named(f"mch_{number}"))
        for _ in range(3):
            assert await calls.engines_with(image, both) == {"mch_4"}
        assert asked == {"mch_3": 3, "mch_4": 3}
        await alive.clock.advance(11)
        assert await calls.engines_with(image, both) == {"mch_4"}
        assert asked == {"mch_3": 4, "mch_4": 4}

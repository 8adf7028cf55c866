"""Caches of containers: filled once, found again, bounded, and gone with what they were for."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from machines_support import SECOND, Fleet, change, leading, new_fleet, rounds, serving
from reconciler_support import SETTINGS, Life, WatchedEngine, World, eventually, life, new_world
from sqlalchemy import select, text
from test_reconciler_canary import canary
from test_reconciler_drafts import draft
from test_renewals import query

from moorage.autoscaling.repository import startup_times_s
from moorage.containers import service
from moorage.containers.disk import LastLook
from moorage.containers.models import ActivityRow, CacheRow
from moorage.containers.service import delete_container, restart_container, stop_container
from moorage.containers.start_times.models import MeasuredStepRow
from moorage.containers.unpaid_starts_repository import unpaid_starts_microusd
from moorage.engines.base import LOCAL_ENGINE, DiskSpace, HeldCache
from moorage.engines.simulated import SimulatedImage
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.kit.ids import ContainerId, ReplicaId

GIB = 2**30
MODEL = "local/model:latest"
CACHE = {"size_gib": 20}
PLENTY = DiskSpace(1000 * GIB, 500 * GIB)
LITTLE = DiskSpace(1000 * GIB, 5 * GIB)


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def caches(world: World) -> list[CacheRow]:
    async with world.database.reading() as session:
        return list((await session.execute(select(CacheRow).order_by(CacheRow.engine))).scalars())


async def kinds(world: World) -> list[str]:
    async with world.database.reading() as session:
        found = await session.execute(select(ActivityRow.kind).where(ActivityRow.kind.like("cache.%")))
        return list(found.scalars())


async def look(alive: Life, space: DiskSpace | None = PLENTY, engine: str = LOCAL_ENGINE) -> None:
    await alive.reconciler._cache_watch.look(engine, space, alive.lease)


async def stopped(alive: Life, container_id: str) -> None:
    await alive.world.ask(stop_container, container_id)
    for _ in range(12):
        await alive.round(container_id)
        if await alive.world.nothing_left(container_id):
            return
    raise AssertionError("it did not stop")


async def test_twenty_replicas_download_once(world: World) -> None:
    world.machine.health_status = 503
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, replicas=20, cache=CACHE)
        await rounds(alive, container_id, 5)
        assert len(world.machine.running()) == 1, "the others wait for what it downloads"
        assert len(await world.replicas(container_id, "requested")) == 19
        progress = (await world.container(container_id)).progress
        assert progress is not None
        assert progress["waiting"] == 19, "and that is said"
        await change(
            world, "UPDATE replicas SET waits_since = now() - interval '1 hour' WHERE waits_since IS NOT NULL"
        )
        world.machine.health_status = 200
        routed = await serving(alive, container_id, 20)
        waited = [one for one in routed if one.waits_since is not None]
        assert len(waited) == 19
        assert all(one.turn_at is not None and one.turn_at > one.created_at for one in waited)
        await change(world, "UPDATE replicas SET created_at = created_at - interval '1 hour'")
        async with world.database.reading() as session:
            took_s = (await startup_times_s(session, [container_id]))[container_id]
        assert took_s < 600, "how long a start takes is not how long the first one took before it"
        assert world.machine.downloads == [container_id]
        await world.ask(restart_container, container_id)
        await serving(alive, container_id, 20)
        assert world.machine.downloads == [container_id], "nor does a restart download"


async def test_who_fills_it_fails_and_so_does_the_deployment_at_once(world: World) -> None:
    """Not twenty times, one after the other."""
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create("local/crash:latest", replicas=20, cache=CACHE)
        await rounds(alive, container_id, 8)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("FAILED", "exited")
        assert world.machine.started_count == 1


async def test_room_that_is_held_behind_one_that_never_comes_up_is_counted(world: World) -> None:
    """Else whoever lets the first one hang has the machines of twenty for the price of one."""
    world.machine.health_status = 503
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, replicas=20, cache=CACHE, health_timeout_s=3600)
        await rounds(alive, container_id, 5)
        await change(
            world,
            "UPDATE replicas SET waits_since = waits_since - interval '30 minutes', "
            "started_at = started_at - interval '30 minutes'",
        )
        query = text(
            "SELECT price_per_hour_microusd * 20 * extract(epoch FROM least(interval '30 minutes', "
            "now() - date_trunc('day', now(), 'UTC')))::float8 / 3600 FROM instance_types WHERE name = 'cpu-nano'"
        )
        async with world.database.reading() as session:
            of_twenty = float((await session.execute(query)).scalar_one())
            used = await unpaid_starts_microusd(session, world.project.organization_id)
        assert of_twenty <= used <= of_twenty * 1.1 + 1


async def test_a_restart_does_not_wait_for_a_first_one_that_hangs(world: World) -> None:
    """That one has an hour to become ready, and is why somebody restarts it. What waited behind it gives its room back."""
    world.machine.health_status = 503
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, replicas=3, cache=CACHE, health_timeout_s=3600)
        await rounds(alive, container_id, 4)
        assert [one.generation for one in world.machine.running()] == [1]
        await world.ask(restart_container, container_id)
        await rounds(alive, container_id, 6)
        assert sorted(one.generation for one in world.machine.running()) == [1, 2]
        assert {one.generation for one in await world.replicas(container_id, "requested")} == {2}
        world.machine.health_status = 200
        await serving(alive, container_id, 3)


@pytest.mark.long
async def test_a_container_without_one_starts_all_at_once(world: World) -> None:
    world.machine.health_status = 503
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, replicas=3)
        await rounds(alive, container_id, 4)
        assert len(world.machine.running()) == 3
        assert world.machine.caches == {}
        assert await caches(world) == []


async def test_its_size_is_shown_and_it_stays_when_the_container_stops(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, cache=CACHE)
        await serving(alive, container_id, 1)
        await look(alive)
        (row,) = await caches(world)
        assert (row.container_id, row.node, row.size_bytes) == (container_id, "simulated", 15 * GIB)
        assert row.warm_version == 1
        await stopped(alive, container_id)
        await look(alive)
        assert [one.container_id for one in await caches(world)] == [container_id]
        assert world.machine.caches


_LONG = pytest.mark.long


@pytest.mark.parametrize(
    "how", ["deleted", pytest.param("unset", marks=_LONG), pytest.param("by hand", marks=_LONG)]
)
async def test_it_goes_with_what_it_was_for(world: World, how: str) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id, other = await world.create(MODEL, cache=CACHE), await world.create(MODEL, cache=CACHE)
        for one in (container_id, other):
            await serving(alive, one, 1)
        if how == "by hand":
            await change(
                world,
                f"UPDATE container_caches SET deleting_at = now() WHERE container_id = '{container_id}'",
            )
            await look(alive)
            assert len(world.machine.caches) == 2, "a replica has it"
        if how == "deleted":
            await world.ask(delete_container, container_id)
            await rounds(alive, container_id, 12)
            assert LOCAL_ENGINE in alive.reconciler._cache_watch._hurried
        else:
            await stopped(alive, container_id)
        if how == "unset":
            await change(
                world, f"UPDATE containers SET settings = settings - 'cache_gib' WHERE id = '{container_id}'"
            )
        await look(alive)
        assert [key for key, _ in world.machine.caches] == [other]
        assert [one.container_id for one in await caches(world)] == [other]


async def test_one_that_breaks_is_named_and_deleted_and_the_next_start_is_whole(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, cache=CACHE)
        await serving(alive, container_id, 1)
        await stopped(alive, container_id)
        whole = world.machine.images
        world.machine.images = {**whole, MODEL: replace(whole[MODEL], exits_after_s=0.0, exit_code=1)}
        await world.ask(service.start_container, container_id)
        await rounds(alive, container_id, 8)
        failed = await world.container(container_id)
        assert (failed.state, failed.reason) == ("FAILED", "exited")
        assert failed.failure_message is not None
        assert (
            "The same settings started from its cache before, so the cache may be damaged."
            in failed.failure_message
        )
        await change(world, "UPDATE container_caches SET deleting_at = now()")
        await look(alive)
        assert world.machine.caches == {}
        # Nothing is said against a cache that has brought nothing up.
        await world.ask(service.start_container, container_id)
        await rounds(alive, container_id, 8)
        assert "cache" not in ((await world.container(container_id)).failure_message or "")
        world.machine.images = whole
        await look(alive)
        await world.ask(service.start_container, container_id)
        await serving(alive, container_id, 1)
        assert len(world.machine.downloads) >= 2


async def test_after_it_was_trimmed_with_nobody_there_one_fills_it_again(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, replicas=3, cache=CACHE)
        await serving(alive, container_id, 3)
        await stopped(alive, container_id)
        for size_gib in (10, 20):
            resized = f"jsonb_set(settings, '{{cache_gib}}', '{size_gib}')"
            await change(world, f"UPDATE containers SET settings = {resized}")
            await look(alive)
        assert (await kinds(world), (await caches(world))[0].warm_version) == (["cache.trim"], 0)
        assert await query(world, "SELECT message FROM activities WHERE kind = 'cache.trim'") == [
            ("Its cache on simulated was full. Removed the 5 GiB that had been unused the longest.",)
        ]
        world.machine.health_status = 503
        await world.ask(service.start_container, container_id)
        await rounds(alive, container_id, 4)
        assert len(world.machine.running()) == 1
        world.machine.health_status = 200
        await serving(alive, container_id, 3)
        assert world.machine.downloads == [container_id] * 2, "once for each time that it was empty"


@pytest.mark.long
async def test_the_next_start_does_not_find_what_was_deleted(world: World) -> None:
    """However soon it is: what was in it may be broken. Unless it cannot be removed."""
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, cache=CACHE)
        for downloads, late, there in ((2, False, True), (2, True, True), (3, False, False)):
            await serving(alive, container_id, 1)
            await stopped(alive, container_id)
            if not there:
                world.machine.caches.clear()
            asked = "now() - interval '2 min'" if late else "now()"
            await change(world, f"UPDATE container_caches SET deleting_at = {asked}")
            await world.ask(service.start_container, container_id)
            await rounds(alive, container_id, 3)
            assert bool(world.machine.running()) is late
            if not late:
                await look(alive)
            await serving(alive, container_id, 1)
            assert len(world.machine.downloads) == downloads


@pytest.mark.long
async def test_what_nobody_knows_is_taken_away(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, cache=CACHE)
        await serving(alive, container_id, 1)
        await stopped(alive, container_id)
        await change(world, "DELETE FROM container_caches")
        await look(alive)
        assert world.machine.caches == {}


async def test_unused_for_too_long_it_goes(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, cache=CACHE)
        await serving(alive, container_id, 1)
        too_long = timedelta(seconds=SETTINGS.unused_caches_kept_s + 60)
        age = f"UPDATE container_caches SET used_at = now() - interval '{too_long.total_seconds()} s'"
        await change(world, age)
        await look(alive)
        assert world.machine.caches, "it is in use"
        await stopped(alive, container_id)
        await change(world, age)
        await look(alive)
        assert (world.machine.caches, await caches(world)) == ({}, [])
        assert await kinds(world) == ["cache.evict"]
        [(said,)] = await query(world, "SELECT message FROM activities WHERE kind = 'cache.evict'")
        unused_since = (system_clock.now() - too_long).date()
        assert said == (
            f"Removed its cache of 15 GiB on simulated, which nothing has used since {unused_since}. "
            "The next start there downloads again."
        )
        await world.ask(service.start_container, container_id)
        await serving(alive, container_id, 1)
        assert world.machine.downloads == [container_id] * 2, "and is whole"
        await look(alive)
        assert [one.size_bytes for one in await caches(world)] == [15 * GIB]


@pytest.mark.long
async def test_what_was_interrupted_is_filled_by_one_again_and_then_whole(world: World) -> None:
    """Stopped in the middle of the download: what is there is not taken for all of it."""
    world.machine.health_status = 503
    slow = replace(world.machine.images[MODEL], listens_after_s=600.0)
    world.machine.images = {**world.machine.images, MODEL: slow}
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, replicas=3, cache=CACHE)
        await rounds(alive, container_id, 4)
        assert len(world.machine.running()) == 1
        world.machine.caches[container_id, None].size_bytes = 7 * GIB
        await look(alive)
        await stopped(alive, container_id)
        await look(alive)
        (half,) = await caches(world)
        assert (half.size_bytes, half.warm_version) == (7 * GIB, 0)
        world.machine.images = {**world.machine.images, MODEL: replace(slow, listens_after_s=0.0)}
        await world.ask(service.start_container, container_id)
        await rounds(alive, container_id, 4)
        assert len(world.machine.running()) == 1, "one goes on, and the others wait for it"
        world.machine.health_status = 200
        await serving(alive, container_id, 3)
        await look(alive)
        (whole,) = await caches(world)
        assert (whole.size_bytes, whole.warm_version) == (15 * GIB, 1)
        assert world.machine.downloads == [container_id] * 2


@pytest.mark.long
async def test_where_the_disk_is_almost_full_the_longest_unused_goes_first(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        older, newer = await world.create(MODEL, cache=CACHE), await world.create(MODEL, cache=CACHE)
        for one in (older, newer):
            await serving(alive, one, 1)
            await stopped(alive, one)
        await change(
            world,
            f"UPDATE container_caches SET used_at = now() - interval '1 h' WHERE container_id = '{older}'",
        )
        await look(alive, LITTLE)
        assert [key for key, _ in world.machine.caches] == [newer]


async def test_a_disk_that_fills_is_looked_at_before_replicas_have_to_go(world: World) -> None:
    """Also where a look takes long, and rests for ten times as long otherwise."""
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id, watch = await world.create(MODEL, cache=CACHE), alive.reconciler._cache_watch
        await serving(alive, container_id, 1)
        due = []
        for stop in (False, True):
            if stop:
                await stopped(alive, container_id)
            await look(alive)
            watch._filling.clear()
            watch._last[LOCAL_ENGINE] = LastLook(alive.clock.monotonic(), 30.0, LITTLE.free_bytes)
            await alive.clock.advance(61)
            due.append(watch._is_due(LOCAL_ENGINE, LITTLE))
        assert due == [False, True], "only where there is something that nobody uses"


async def test_one_that_is_full_of_what_is_in_use_ends_its_newest_replica_and_nobody_else(
    world: World,
) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id, other = await world.create(MODEL, cache={"size_gib": 10}), await world.create(MODEL)
        for one in (container_id, other):
            await serving(alive, one, 1)
        (first,) = await world.replicas(container_id)
        await look(alive)
        await rounds(alive, container_id, 2)
        rows = {one.id: one for one in await world.replicas(container_id)}
        assert (rows[first.id].reason, rows[first.id].ended_badly) == ("disk_full", True)
        assert "its cache is full: 15 GiB of 10 GiB, and all of it is in use" in (
            rows[first.id].message or ""
        )
        assert [one.state for one in await world.replicas(other)] == ["routed"]


class StubbornEngine(WatchedEngine):
    """One of its caches can be neither removed nor trimmed."""

    stubborn = ""

    async def remove_cache(self, container_id: ContainerId, replica_id: ReplicaId | None) -> bool:
        self._refuse(container_id)
        return await super().remove_cache(container_id, replica_id)

    async def trim_cache(
        self, container_id: ContainerId, replica_id: ReplicaId | None, to_bytes: int
    ) -> HeldCache | None:
        self._refuse(container_id)
        return await super().trim_cache(container_id, replica_id, to_bytes)

    def _refuse(self, container_id: str) -> None:
        if container_id == self.stubborn:
            raise EngineError("too many open files")


@pytest.mark.parametrize("how", ["removed", "trimmed"])
@pytest.mark.long
async def test_one_that_cannot_be_removed_or_trimmed_does_not_keep_the_others(world: World, how: str) -> None:
    engine = StubbornEngine(world.machine)
    async with life(world, engine) as alive:
        ids = sorted([await world.create(MODEL, cache=CACHE), await world.create(MODEL, cache=CACHE)])
        for one in ids:
            await serving(alive, one, 1)
            await stopped(alive, one)
        # The engine lists it first.
        engine.stubborn = next(iter(world.machine.caches))[0]
        if how == "removed":
            await change(world, "UPDATE container_caches SET deleting_at = now()")
        else:
            shrunk = "jsonb_set(settings, '{cache_gib}', '10')"
            await change(world, f"UPDATE containers SET settings = {shrunk}")
        await look(alive)
        (other,) = set(ids) - {engine.stubborn}
        left = {key: cache.size_bytes for (key, _), cache in world.machine.caches.items()}
        kept = {engine.stubborn: 15 * GIB}
        assert left == (kept if how == "removed" else {**kept, other: 10 * GIB})


async def test_whoever_makes_looks_long_does_not_make_them_endless(world: World) -> None:
    """Each start asks for one."""
    async with life(world, WatchedEngine(world.machine)) as alive:
        watch = alive.reconciler._cache_watch
        now_s = alive.clock.monotonic()
        watch._last[LOCAL_ENGINE] = LastLook(now_s, 30.0, PLENTY.free_bytes)
        watch.hurry(LOCAL_ENGINE)
        assert not watch._is_due(LOCAL_ENGINE, PLENTY)
        watch._last[LOCAL_ENGINE] = LastLook(now_s, 0.0, PLENTY.free_bytes)
        assert watch._is_due(LOCAL_ENGINE, PLENTY)


async def test_where_it_fills_the_disk_one_replica_ends_and_not_all_that_share_it(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, replicas=3, cache=CACHE)
        routed = await serving(alive, container_id, 3)
        await look(alive)
        watch = alive.reconciler._disk_watch
        for _ in range(3):
            await watch._look(LOCAL_ENGINE, DiskSpace(1000 * GIB, GIB))
        newest = max(routed, key=lambda one: (one.created_at, one.id))
        evicted = [one.id for one in routed if watch.why_evicted(LOCAL_ENGINE, one.id) is not None]
        assert evicted == [newest.id], "that of the others gives nothing back"


async def test_whoever_fills_it_beyond_its_bound_ends_and_not_one_that_waits(world: World) -> None:
    world.machine.health_status = 503
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, replicas=3, cache={"size_gib": 10})
        await rounds(alive, container_id, 4)
        (first,) = await world.replicas(container_id, "starting")
        await look(alive)
        await rounds(alive, container_id, 8)
        reasons = {one.id: one.reason for one in await world.replicas(container_id)}
        assert (reasons[first.id], (await world.container(container_id)).state) == ("disk_full", "FAILED")
        assert world.machine.started_count == 1


async def test_a_version_on_trial_has_the_room_that_it_asks_for(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(cache={"size_gib": 1})
        await serving(alive, container_id, 1)
        await draft(world, container_id, image=MODEL, cache=CACHE)
        await world.ask(canary, container_id)
        await serving(alive, container_id, 2)
        await look(alive)
        await rounds(alive, container_id, 2)
        assert [one.version for one in await world.replicas(container_id, "routed")] == [1, 2]
        world.machine.caches[container_id, None].size_bytes = 21 * GIB
        await look(alive)
        await rounds(alive, container_id, 2)
        assert [one.version for one in await world.replicas(container_id, "routed")] == [1]


@pytest.mark.long
async def test_one_that_is_to_go_is_filled_no_further_by_whoever_still_has_it(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, cache={"size_gib": 10})
        (first,) = await serving(alive, container_id, 1)
        await change(world, "UPDATE container_caches SET deleting_at = now()")
        await look(alive)
        await rounds(alive, container_id, 2)
        reasons = {one.id: one.reason for one in await world.replicas(container_id)}
        assert reasons[first.id] == "disk_full"


async def test_a_download_that_ends_says_what_is_kept(world: World) -> None:
    """The next start goes on from there; that the process ended with 1 tells nobody."""
    world.machine.health_status = 503
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, cache=CACHE)
        await rounds(alive, container_id, 3)
        for size_bytes in (1 * GIB, 3 * GIB):
            world.machine.caches[container_id, None].size_bytes = size_bytes
            await look(alive)
            await alive.clock.advance(2)
        (starting,) = world.machine.running()
        world.machine.end(starting.replica_id, exit_code=1)
        await rounds(alive, container_id, 2)
        failed = await world.container(container_id)
        assert (failed.state, failed.reason) == ("FAILED", "exited")
        assert failed.message is not None
        assert failed.message.startswith(
            "It ended while downloading weights (3 GiB are kept). Start it again: it goes on from there."
        )


async def test_a_start_says_that_it_downloads_and_how_fast(world: World) -> None:
    world.machine.health_status = 503
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL, cache=CACHE)
        await rounds(alive, container_id, 3)

        async def progress_at(size_bytes: int) -> dict[str, Any]:
            world.machine.caches[container_id, None].size_bytes = size_bytes
            await look(alive)
            await alive.round(container_id)
            progress = (await world.container(container_id)).progress
            assert progress is not None
            return progress

        await progress_at(1 * GIB)
        await alive.clock.advance(2)
        progress = await progress_at(3 * GIB)
        assert (progress["phase"], progress["step"]) == ("start", "download")
        assert (progress["cache_bytes"], progress["bytes_per_s"]) == (3 * GIB, GIB)
        for _ in range(3):
            await alive.clock.advance(8)
            progress = await progress_at(3 * GIB)
        assert progress["step"] == "load"


async def test_what_serves_says_nothing_of_a_start(world: World) -> None:
    """Nobody looks again at a container that is as it should be."""
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(MODEL)
        said = []

        async def runs() -> bool:
            await alive.round(container_id)
            row = await world.container(container_id)
            said.append(row.progress)
            return bool(row.state == "RUNNING")

        await eventually(runs, "it runs")
        assert [one["phase"] for one in said[:-1] if one is not None], "it was said while it started"
        assert said[-1] is None


async def measured(world: World) -> list[tuple[str, int, float]]:
    async with world.database.reading() as session:
        rows = (await session.execute(select(MeasuredStepRow).order_by(MeasuredStepRow.id))).scalars()
        return [(row.step, row.bytes, round(row.took_s)) for row in rows]


async def test_what_a_start_took_is_known_for_the_next_one(world: World) -> None:
    engine = WatchedEngine(world.machine)
    image = "docker.io/acme/model:1"
    world.machine.images = {
        **world.machine.images,
        image: SimulatedImage(exposed_ports=(8000,), cached_bytes=15 * GIB, size_bytes=8 * GIB),
    }
    world.machine.health_status = 503
    async with life(world, engine) as alive:
        container_id = await world.create(MODEL, cache=CACHE)
        elsewhere = json.dumps({"image": image, "registry_provider": "docker-hub"})
        await change(world, f"UPDATE containers SET settings = settings || '{elsewhere}'")

        async def pull(call: str) -> None:
            if call == "ensure_image":
                await alive.clock.advance(41)

        engine.before = pull
        await rounds(alive, container_id, 4)
        assert await measured(world) == [("pull", 8 * GIB, 41)]
        for size_bytes in (0, 7 * GIB, 15 * GIB, 15 * GIB):
            world.machine.caches[container_id, None].size_bytes = size_bytes
            await look(alive)
            await alive.clock.advance(5)
        await alive.clock.advance(30)
        world.machine.health_status = 200
        await serving(alive, container_id, 1)
        assert (await measured(world))[1:] == [("download", 15 * GIB, 10), ("load", 15 * GIB, 40)]

        await stopped(alive, container_id)
        await look(alive)
        world.machine.health_status = 503
        await world.ask(service.start_container, container_id)
        await rounds(alive, container_id, 4)
        await look(alive)
        await change(
            world,
            "UPDATE replicas SET started_at = started_at - interval '35 s' WHERE state = 'starting'",
        )
        await alive.clock.advance(30)
        world.machine.health_status = 200
        await serving(alive, container_id, 1)
        (step, size_bytes, took_s) = (await measured(world))[-1]
        assert (step, size_bytes) == ("again", 15 * GIB)
        assert 35 <= took_s < 60, "so much of a real clock as this test takes"
        assert len(await measured(world)) in (4, 5), "with the pull that the restart made, if there was one"
        async with world.database.reading() as session:
            rows = (await session.execute(select(MeasuredStepRow))).scalars().all()
        organization = world.project.organization_id
        assert {(one.organization_id, one.infrastructure, one.image) for one in rows} == {
            (organization, "operator", image)
        }


@pytest.fixture
async def fleet(database: Database) -> Fleet:
    return await new_fleet(database)


@pytest.mark.long
async def test_it_starts_where_its_cache_is(fleet: Fleet) -> None:
    """Also when it takes over from a version that serves there, and that machine has the least room."""
    world = fleet.world
    async with leading(fleet) as alive:
        container_id = await world.create(MODEL, cache=CACHE)
        (first,) = await serving(alive, container_id, 1)
        for number in range(3):
            filler = await world.create()
            await change(world, f"UPDATE nodes SET cordoned_at = now() WHERE engine <> '{first.engine}'")
            await serving(alive, filler, 1)
            await change(world, "UPDATE nodes SET cordoned_at = NULL")
            await world.ask(restart_container if number else stop_container, container_id)
            await rounds(alive, container_id, 10)
            if not number:
                await world.ask(service.start_container, container_id)
            (again,) = await serving(alive, container_id, 1)
            assert (again.engine, again.id != first.id) == (first.engine, True)
        assert [len(machine.downloads) for machine in fleet.machines.values()] in ([1, 0], [0, 1])


async def test_a_whole_cache_is_better_than_one_that_was_interrupted(fleet: Fleet) -> None:
    world, whole = fleet.world, "simulated"
    async with leading(fleet) as alive:
        container_id = await world.create(MODEL, max_replicas=2, cache=CACHE)
        await change(world, "UPDATE containers SET desired_replicas = 2")
        assert {one.node for one in await serving(alive, container_id, 2)} == {"simulated", "second"}
        await stopped(alive, container_id)
        await change(
            world, f"UPDATE container_caches SET size_bytes = {GIB}, warm_version = (node = '{whole}')::int"
        )
        # The other one has more room.
        await change(world, f"UPDATE nodes SET cordoned_at = now() WHERE name <> '{whole}'")
        await serving(alive, await world.create(), 1)
        await change(world, "UPDATE nodes SET cordoned_at = NULL")
        await world.ask(service.start_container, container_id)
        (again,) = await serving(alive, container_id, 1)
        assert again.node == whole


async def test_on_machines_of_strangers_it_ends_with_its_replica(fleet: Fleet) -> None:
    world = fleet.world
    await change(world, "UPDATE nodes SET infrastructure = 'community'")
    await change(world, "UPDATE instance_types SET infrastructure = 'community'")
    async with leading(fleet) as alive:
        container_id = await world.create(
            MODEL, cache=CACHE, infrastructure="community", accept_exposure=True
        )
        (row,) = await serving(alive, container_id, 1)
        machine = fleet.machines[row.engine]
        assert list(machine.caches) == [(container_id, row.id)]
        assert await caches(world) == []
        await look(alive, engine=row.engine)
        await stopped(alive, container_id)
        assert machine.caches == {}
        assert SECOND in fleet.machines

"""GPUs in a container's life: one replica each, several for one, a GPU that breaks, an image that wants a newer driver."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from reconciler_support import KEYRING, SETTINGS, WatchedEngine, World, driven, eventually, life, new_world
from sqlalchemy import text

from moorage.catalog.models import InstanceTypeRow
from moorage.catalog.repository import replace_nodes
from moorage.containers import service
from moorage.containers.schemas import AutoscalingResources, ContainerCreate, HealthCheck, RegistryWrite
from moorage.containers.spec import RegistryProvider
from moorage.engines.base import GpuDevice, NodeCapacity
from moorage.engines.simulated_machine import SimulatedImage
from moorage.entrypoints.migrate import migrate
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, DatabaseAwayError
from moorage.ledger.check_repository import find_differences, find_slots_paid_wrongly

MODEL = "NVIDIA H200"
CUDA = "local/cuda:latest"
SEEN_WITHIN_S = 10.0


@pytest.fixture
async def world(database: Database) -> World:
    return await with_gpus(await new_world(database), 2)


async def with_gpus(world: World, count: int) -> World:
    world.machine.gpus = tuple(GpuDevice(f"GPU-{index}", MODEL, 141 * 2**30) for index in range(count))
    world.machine.gpu_driver, world.machine.cuda_version = "550.54.14", "12.4"
    async with world.database.transaction() as session:
        for gpus in (1, 2):
            session.add(
                InstanceTypeRow(
                    name=f"gpu-{gpus}",
                    position=100 + gpus,
                    gpu_model=MODEL,
                    gpu_count=gpus,
                    vcpu_millis=1000,
                    memory_bytes=2**30,
                    disk_bytes=2**34,
                    price_per_hour_microusd=1_000_000,
                )
            )
    await refresh(world)
    return world


async def refresh(world: World) -> None:
    async with world.database.transaction() as session:
        await replace_nodes(session, await WatchedEngine(world.machine).capacity())


async def create(
    world: World,
    instance_type: str = "gpu-1",
    replicas: int = 1,
    image: str = "local/chat:latest",
    **more: object,
) -> str:
    wanted = ContainerCreate.model_validate(
        {
            "name": f"on-a-gpu-{replicas}-{instance_type}-{image.replace('/', '-').replace(':', '-')}",
            "image": image,
            "registry": RegistryWrite(provider=RegistryProvider.LOCAL),
            "resources": AutoscalingResources(
                mode="autoscaling", instance_type=instance_type, min_replicas=replicas, max_replicas=replicas
            ),
            "health_check": HealthCheck(path="/health"),
            **more,
        }
    )
    async with world.database.transaction() as session:
        row = await service.create_container(
            session,
            world.actor,
            world.project,
            wanted,
            keyring=KEYRING,
            settings=SETTINGS,
            clock=system_clock,
        )
        return row.id


async def routed(world: World, container_id: str) -> list[str]:
    """The GPUs of what serves, in the order of slots."""
    return [one for row in await world.replicas(container_id, "routed") for one in row.gpu_device_ids]


async def state_of(world: World, container_id: str, state: str) -> None:
    async def reached() -> bool:
        return (await world.container(container_id)).state == state

    await eventually(reached, f"{container_id} is {state}")


async def hour(world: World, container_id: str) -> tuple[timedelta, bool, int]:
    """What is left of its only paid hour, whether it pauses, and how many were paid."""
    query = text(
        "SELECT expires_at - coalesce(paused_at, now()), paused_at IS NOT NULL, count(*) OVER () FROM hours "
        "WHERE container_id = :id AND state = 'paid' ORDER BY bought_at DESC LIMIT 1"
    )
    async with world.database.transaction() as session:
        left, paused, paid = (await session.execute(query, {"id": container_id})).one()
        return left, paused, paid


async def test_each_replica_has_a_gpu_of_its_own(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await create(world, replicas=2)

        async def both() -> bool:
            return sorted(await routed(world, container_id)) == ["GPU-0", "GPU-1"]

        await eventually(both, "two replicas on two GPUs")
        other = await create(world)

        async def waits() -> bool:
            return (await world.container(other)).reason == "no_capacity"

        await eventually(waits, "a third has none")
        assert "all of it is in use" in ((await world.container(other)).message or "")
    specs = {spec.gpu_device_ids for spec in world.machine.running()}
    assert specs == {("GPU-0",), ("GPU-1",)}


async def test_one_replica_may_have_several(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await create(world, "gpu-2")
        await state_of(world, container_id, "RUNNING")
    assert [spec.gpu_device_ids for spec in world.machine.running()] == [("GPU-0", "GPU-1")]


@pytest.mark.long
async def test_a_gpu_that_breaks_is_left_within_seconds_and_the_time_is_not_billed(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await create(world)
        await state_of(world, container_id, "RUNNING")
        (broken,) = await routed(world, container_id)
        (other,) = {"GPU-0", "GPU-1"} - {broken}
        began_s = system_clock.monotonic()
        world.machine.gpu_problems[broken] = "it has fallen off the bus"

        async def moved() -> bool:
            return await routed(world, container_id) == [other]

        await eventually(moved, "it serves on the other GPU", SEEN_WITHIN_S)
        print(f"\nreplaced {system_clock.monotonic() - began_s:.1f} s after the GPU broke")
        first = next(row for row in await world.replicas(container_id) if row.gpu_device_ids == [broken])
        assert (first.reason, first.ended_badly) == ("gpu_lost", True)
        assert "it has fallen off the bus" in (first.message or "")
        _, paused, paid = await hour(world, container_id)
        assert (paused, paid) == (False, 1)


@pytest.mark.long
async def test_a_machine_whose_description_hangs_holds_up_nobody_who_has_to_go(world: World) -> None:
    """The library hangs, and the kernel's log tells which GPU it is: its replica does not wait for the library."""

    class Hanging(WatchedEngine):
        hangs = False

        async def capacity(self) -> list[NodeCapacity]:
            if self.hangs:
                await asyncio.Event().wait()
            return await super().capacity()

    engine = Hanging(world.machine)
    async with driven(world, engine):
        container_id = await create(world)
        await state_of(world, container_id, "RUNNING")
        (broken,) = await routed(world, container_id)
        (other,) = {"GPU-0", "GPU-1"} - {broken}
        engine.hangs = True
        world.machine.gpu_problems[broken] = "its own processor does not answer (Xid 119)"

        async def moved() -> bool:
            return await routed(world, container_id) == [other]

        await eventually(moved, "it serves on the other GPU", SEEN_WITHIN_S)


@pytest.mark.long
async def test_a_machine_that_could_not_be_written_down_keeps_nobody_on_a_broken_gpu(world: World) -> None:
    class WithoutDatabase(WatchedEngine):
        """As its row is about to be written, the connection is lost, once."""

        loses = False

        async def capacity(self) -> list[NodeCapacity]:
            if self.loses:
                self.loses = False
                raise DatabaseAwayError
            return await super().capacity()

    engine = WithoutDatabase(world.machine)
    async with driven(world, engine):
        container_id = await create(world)
        await state_of(world, container_id, "RUNNING")
        (broken,) = await routed(world, container_id)
        (other,) = {"GPU-0", "GPU-1"} - {broken}
        engine.loses = True
        world.machine.gpu_problems[broken] = "it has fallen off the bus"

        async def moved() -> bool:
            return await routed(world, container_id) == [other]

        await eventually(moved, "it serves on the other GPU", SEEN_WITHIN_S)


@pytest.mark.long
async def test_while_no_other_gpu_is_free_the_hour_waits_with_it(database: Database) -> None:
    world = await with_gpus(await new_world(database), 1)
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await create(world)
        await state_of(world, container_id, "RUNNING")
        world.machine.gpu_problems["GPU-0"] = "it has fallen off the bus"
        await state_of(world, container_id, "PENDING")
        row = await world.container(container_id)
        assert row.reason == "no_capacity"
        # What broke, and on which machine, is the operator's to read.
        assert row.message == (
            f"Waits for {MODEL}: it cannot be used now. Choose another instance type, or ask the operator."
        )
        left, paused, paid = await hour(world, container_id)
        assert (paused, paid) == (True, 1)
        # A day passes; the GPU is exchanged.
        async with world.database.transaction() as session:
            await session.execute(
                text(
                    "UPDATE hours SET paused_at = paused_at - interval '1 day', expires_at = expires_at - interval "
                    "'1 day', bought_at = bought_at - interval '1 day', due_at = due_at - interval '1 day' "
                    "WHERE container_id = :id"
                ),
                {"id": container_id},
            )
        world.machine.gpu_problems.clear()
        await refresh(world)
        await state_of(world, container_id, "RUNNING")
        left_after, paused, paid = await hour(world, container_id)
        assert (paused, paid) == (False, 1), "nothing was bought anew"
        assert abs((left_after - left).total_seconds()) < 30, "and nothing of it was lost"
        async with world.database.transaction() as session:
            assert await find_differences(session) == []
            assert await find_slots_paid_wrongly(session) == []


async def test_a_process_that_dies_of_its_gpu_before_anybody_looked(database: Database) -> None:
    """As real ones do: the driver fails every call at once, and the engine tells of the end before the watch looks."""
    world = await with_gpus(await new_world(database), 2)
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await create(world)
        for _ in range(4):
            await alive.round(container_id)
        (broken,) = await routed(world, container_id)
        (other,) = {"GPU-0", "GPU-1"} - {broken}
        (first,) = await world.replicas(container_id, "routed")
        world.machine.gpu_problems[broken] = "it has fallen off the bus"
        world.machine.end(first.id, exit_code=134)
        await alive.round(container_id)
        (ended,) = [row for row in await world.replicas(container_id) if row.id == first.id]
        assert (ended.reason, ended.ended_badly) == ("gpu_lost", True)
        assert "it has fallen off the bus" in (ended.message or "")
        _, paused, paid = await hour(world, container_id)
        assert (paused, paid) == (True, 1)

        async def serves() -> bool:
            await alive.round(container_id)
            return await routed(world, container_id) == [other]

        await eventually(serves, "it serves on the other GPU")
        tried = {
            one
            for row in await world.replicas(container_id)
            if row.id != first.id
            for one in row.gpu_device_ids
        }
        assert tried == {other}, "the broken one was not tried again"
        _, paused, paid = await hour(world, container_id)
        assert (paused, paid) == (False, 1)


async def test_a_process_that_dies_of_itself_is_its_own_fault(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await create(world)
        for _ in range(4):
            await alive.round(container_id)
        (first,) = await world.replicas(container_id, "routed")
        world.machine.end(first.id, exit_code=1)
        await alive.round(container_id)
        (ended,) = [row for row in await world.replicas(container_id) if row.id == first.id]
        assert ended.reason == "exited"
        _, paused, paid = await hour(world, container_id)
        assert (paused, paid) == (False, 1)


async def test_an_hour_that_goes_to_a_slot_that_serves_does_not_pause_there(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await create(world, replicas=2)
        for _ in range(4):
            await alive.round(container_id)
        assert len(await routed(world, container_id)) == 2
        (second,) = [row for row in await world.replicas(container_id, "routed") if row.slot == 1]
        world.machine.gpu_problems[second.gpu_device_ids[0]] = "it has fallen off the bus"
        world.machine.end(second.id)
        await alive.round(container_id)
        # One is enough from now on; and the hour of the one that serves ended while it was thought to be missing.
        async with world.database.transaction() as session:
            await session.execute(
                text("UPDATE containers SET desired_replicas = 1 WHERE id = :id"), {"id": container_id}
            )
            await session.execute(
                text(
                    "UPDATE hours SET due_at = NULL, expires_at = now() WHERE container_id = :id AND slot = 0"
                ),
                {"id": container_id},
            )
        await alive.round(container_id)
        query = text("SELECT slot, paused_at FROM hours WHERE container_id = :id AND due_at IS NOT NULL")
        async with world.database.transaction() as session:
            live = list(await session.execute(query, {"id": container_id}))
            assert live == [(0, None)], "the rest of the other slot's hour passes"
            assert await find_slots_paid_wrongly(session) == []


async def test_an_hour_of_another_type_goes_on_pausing(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await create(world, "gpu-2")
        for _ in range(4):
            await alive.round(container_id)
        (first,) = await world.replicas(container_id, "routed")
        world.machine.gpu_problems["GPU-1"] = "it has fallen off the bus"
        world.machine.end(first.id)
        await alive.round(container_id)
        assert (await hour(world, container_id))[1:] == (True, 1)
        # Its owner has one GPU do, until there are two again.
        async with world.database.transaction() as session:
            await session.execute(
                text(
                    "UPDATE containers SET instance_type = 'gpu-1', generation = generation + 1, "
                    "settings = jsonb_set(settings, '{instance_type}', '\"gpu-1\"') WHERE id = :id"
                ),
                {"id": container_id},
            )
        for _ in range(4):
            await alive.round(container_id)
        assert await routed(world, container_id) == ["GPU-0"]
        query = text(
            "SELECT instance_type, paused_at IS NOT NULL FROM hours WHERE container_id = :id ORDER BY instance_type"
        )
        async with world.database.transaction() as session:
            found = list(await session.execute(query, {"id": container_id}))
            assert found == [("gpu-1", False), ("gpu-2", True)]
            assert await find_slots_paid_wrongly(session) == []


@pytest.mark.long
async def test_an_hour_that_nobody_came_back_for_stays_over(database: Database) -> None:
    world = await with_gpus(await new_world(database), 1)
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await create(world)
        await state_of(world, container_id, "RUNNING")
        world.machine.gpu_problems["GPU-0"] = "it has fallen off the bus"
        await state_of(world, container_id, "PENDING")
        # A month passes, and renewals end the hour.
        async with world.database.transaction() as session:
            await session.execute(
                text("UPDATE hours SET due_at = NULL WHERE container_id = :id"), {"id": container_id}
            )
        world.machine.gpu_problems.clear()
        await refresh(world)
        await state_of(world, container_id, "RUNNING")
        left, paused, paid = await hour(world, container_id)
        assert (paused, paid) == (False, 2)
        assert left > timedelta(0)
        async with world.database.transaction() as session:
            assert await find_slots_paid_wrongly(session) == []


async def test_an_image_that_no_driver_here_runs_fails_before_anything_starts(world: World) -> None:
    world.machine.images = {
        **world.machine.images,
        CUDA: SimulatedImage(exposed_ports=(8000,), gpu_environment={"NVIDIA_REQUIRE_CUDA": "cuda>=13.0"}),
    }
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await create(world, image=CUDA)
        for _ in range(3):
            await alive.round(container_id)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("FAILED", "gpu_driver_mismatch")
        assert "asks for cuda>=13.0" in (row.message or "")
        assert "550.54.14, which runs CUDA 12.4 at most" in (row.message or "")
        assert await world.replicas(container_id) == []
        # The owner knows better, and says so.
        allowed = await create(world, "gpu-2", image=CUDA, env={"NVIDIA_DISABLE_REQUIRE": "1"})
        for _ in range(4):
            await alive.round(allowed)
        assert (await world.container(allowed)).state == "RUNNING"
        # Without a GPU the image may run where it likes.
        plain = await create(world, "cpu-nano", image=CUDA)
        for _ in range(4):
            await alive.round(plain)
        assert (await world.container(plain)).state == "RUNNING"


async def test_placement_passes_over_machines_whose_driver_is_too_old(world: World) -> None:
    world.machine.images = {
        **world.machine.images,
        CUDA: SimulatedImage(exposed_ports=(8000,), gpu_environment={"NVIDIA_REQUIRE_CUDA": "cuda>=13.0"}),
    }
    (old,) = await WatchedEngine(world.machine).capacity()
    world.machine.gpu_driver, world.machine.cuda_version = "580.82.07", "13.0"
    (new,) = await WatchedEngine(world.machine).capacity()
    gpu = GpuDevice("GPU-new", MODEL, 141 * 2**30)
    newer = replace(new, name="newer", engine_identity="another", gpus=(gpu,))
    async with world.database.transaction() as session:
        await replace_nodes(session, [old, newer])
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await create(world, image=CUDA)
        for _ in range(4):
            await alive.round(container_id)
        (replica,) = await world.replicas(container_id)
        # The old machine has more of them free, and would have been chosen.
        assert (replica.node, replica.gpu_device_ids) == ("newer", ["GPU-new"])


async def test_the_migrations_go_down_and_up_over_an_hour_that_pauses(
    database: Database, database_dsn: str
) -> None:
    world = await with_gpus(await new_world(database), 1)
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await create(world, api_path="/v1")
        for _ in range(4):
            await alive.round(container_id)
        (first,) = await world.replicas(container_id, "routed")
        world.machine.gpu_problems["GPU-0"] = "it has fallen off the bus"
        world.machine.end(first.id)
        await alive.round(container_id)
    left, paused, _ = await hour(world, container_id)
    assert paused
    await migrate(database_dsn, "0045")
    async with world.database.transaction() as session:
        ((since, settings, gpu, reason),) = await session.execute(
            text(
                "SELECT h.expires_at - now(), c.settings, n.gpus -> 0, r.reason FROM hours h, containers c, nodes n, replicas r "
                "WHERE r.id = :id"
            ),
            {"id": first.id},
        )
    assert abs((since - left).total_seconds()) < 30, "the rest of it passes from now on"
    # What the version before cannot read.
    assert "api_path" not in settings
    assert gpu.keys() == {"device_id", "model", "memory_bytes"}
    assert reason == "node_lost"
    await migrate(database_dsn)
    await refresh(world)
    assert (await world.container(container_id)).settings.get("api_path") is None
    assert (await hour(world, container_id))[1:] == (False, 1)

"""What replicas use is looked at each second, stored in blocks, made longer, dropped, and read."""

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from api_support import Api, bearer
from api_support import api_fixture as api_fixture

from moorage.containers.models import ReplicaRow
from moorage.engines.base import LOCAL_ENGINE, GpuUsage, ImageRequest, ReplicaSpec
from moorage.engines.engines import Engines
from moorage.engines.simulated import SimulatedEngine, SimulatedImage, SimulatedMachine
from moorage.kit.clock import VirtualClock, system_clock
from moorage.kit.database import Database, database_now
from moorage.kit.errors import EngineError
from moorage.kit.ids import (
    ContainerId,
    ReplicaId,
    new_installation_id,
    new_organization_id,
    new_project_id,
    new_replica_id,
)
from moorage.reconcile.lease import Lease, LeaseKeeper
from moorage.telemetry.metrics.keeper import MetricsKeeper
from moorage.telemetry.metrics.samples import start_of
from moorage.telemetry.usage import repository
from moorage.telemetry.usage.blocks import CPU, MEMORY, RUNGS, Block
from moorage.telemetry.usage.book import UsageBook
from moorage.telemetry.usage.sampler import UsageSampler

SECONDS, TENS, MINUTES, _ = RUNGS
HOUR = timedelta(hours=1)
IMAGE = "local/model:1"
USED = GpuUsage(87.5, 40 * 2**30, 61.0, 312.4)


async def leader(database: Database) -> Lease:
    lease = await LeaseKeeper(database, "metrics", "a", system_clock).acquire()
    assert lease is not None
    return lease


async def now_of(database: Database) -> datetime:
    async with database.transaction() as session:
        return await database_now(session)


async def container_of(api: Api) -> tuple[str, ContainerId]:
    user_id, _ = await api.new_person("someone@example.com")
    project_id = await api.new_project(
        await api.new_organization("acme", {user_id: "admin"}), "main", user_id
    )
    return project_id, ContainerId(await api.new_container(project_id, "chat"))


async def started(
    api: Api, engine: SimulatedEngine, container_id: ContainerId, slot: int, gpus: tuple[str, ...] = ()
) -> ReplicaId:
    """A replica that runs, and its row."""
    replica_id = new_replica_id()
    image = await engine.ensure_image(ImageRequest(IMAGE, local=True), lambda _: None)
    spec = ReplicaSpec(
        replica_id, container_id, new_project_id(), new_organization_id(), slot, 1, image.engine_ref, None, {},
        8000, 20_000 + slot, 1000, 2**30, 2**30, gpus,
    )  # fmt: skip
    observed = await engine.start(spec)
    async with api.database.transaction() as session:
        session.add(
            ReplicaRow(
                id=replica_id, container_id=container_id, slot=slot, generation=1, instance_type="cpu-nano",
                state="routed", node="here", host_port=20_000 + slot, engine_id=observed.engine_id,
                gpu_device_ids=list(gpus),
            )
        )  # fmt: skip
    return replica_id


async def read(
    api: Api, project_id: str, container_id: str, since: datetime, until: datetime, step: int
) -> list:
    _, key = await api.new_key(project_id, "manage")
    query = {"from": since.isoformat(), "to": until.isoformat(), "step": step}
    answer = await api.get(bearer("key", key), f"/containers/{container_id}/metrics", params=query)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert all(
        len(values) == len(found["times"])
        for replica in found["replicas"]
        for series in (replica["series"], *(gpu["series"] for gpu in replica["gpus"]))
        for values in series.values()
    )
    return list(found["replicas"])


async def test_each_second_of_a_replica_and_of_its_gpus(api: Api) -> None:
    project_id, container_id = await container_of(api)
    began = start_of(await now_of(api.database) - timedelta(minutes=2), 10)
    clock = VirtualClock(began)
    machine = SimulatedMachine(
        clock, {IMAGE: SimulatedImage(cpu_millis=750, memory_bytes=2**30, gpu_usage=USED)}
    )
    engine = SimulatedEngine(machine, new_installation_id())
    first = await started(api, engine, container_id, 0, ("GPU-a", "GPU-b"))
    second = await started(api, engine, container_id, 1)
    lease, sampler = await leader(api.database), UsageSampler(UsageBook(api.database, clock), engine, clock)
    for passed_s in range(21):
        if passed_s == 5:
            (gone,) = [one for one in machine.replicas.values() if one.spec.replica_id == second]
            machine.put(replace(gone, ends_at=clock.now()))
        await sampler.sample(clock.now(), lease)
        await clock.advance(1)
    (one, other) = await read(api, project_id, container_id, began, began + timedelta(seconds=20), 1)
    assert (one["replica_id"], one["slot"]) == (first, 0)
    # The first look has nothing to compare with.
    assert one["series"] == {CPU: [None, *[750.0] * 19], MEMORY: [float(2**30)] * 20}
    assert [gpu["device_id"] for gpu in one["gpus"]] == ["GPU-a", "GPU-b"]
    assert one["gpus"][1]["series"] == {name: [value] * 20 for name, value in vars(USED).items()}
    assert other["replica_id"] == second
    assert other["series"][CPU] == [None, *[750.0] * 4, *[None] * 15], "nothing of a replica that has ended"
    assert other["gpus"] == []


async def test_whoever_leads_looks_every_second(api: Api) -> None:
    project_id, container_id = await container_of(api)
    began = start_of(await now_of(api.database) - timedelta(minutes=2), 10)
    clock = VirtualClock(began)
    machine = SimulatedMachine(clock, {IMAGE: SimulatedImage(cpu_millis=250)})
    engine = SimulatedEngine(machine, new_installation_id())
    await started(api, engine, container_id, 0)
    keeper = MetricsKeeper(api.database, Engines({LOCAL_ENGINE: engine}), clock)
    leading = asyncio.create_task(keeper.lead(await leader(api.database)))
    try:
        for _ in range(21):
            async with asyncio.timeout(20):
                while not clock._sleepers and not leading.done():  # noqa: ASYNC110 - it is at the database
                    await asyncio.sleep(0.005)
            await clock.advance(1)
    finally:
        leading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await leading
    (one,) = await read(api, project_id, container_id, began, began + timedelta(seconds=20), 1)
    assert one["series"][CPU][:2] == [None, None], "it looks first when a second has passed"
    assert one["series"][CPU][2:] == [250.0] * 18


class HungGpus(SimulatedEngine):
    async def gpu_usage(self, device_ids: Collection[str]) -> Mapping[str, GpuUsage]:
        raise EngineError("NVML did not answer within 2 s")


async def test_gpus_that_hang_take_nothing_with_them(api: Api) -> None:
    project_id, container_id = await container_of(api)
    began = start_of(await now_of(api.database) - timedelta(minutes=2), 10)
    clock = VirtualClock(began)
    machine = SimulatedMachine(clock, {IMAGE: SimulatedImage(cpu_millis=750)})
    engine = HungGpus(machine, new_installation_id())
    await started(api, engine, container_id, 0, ("GPU-a",))
    lease, sampler = await leader(api.database), UsageSampler(UsageBook(api.database, clock), engine, clock)
    for _ in range(11):
        await sampler.sample(clock.now(), lease)
        await clock.advance(1)
    (one,) = await read(api, project_id, container_id, began, began + timedelta(seconds=10), 1)
    assert one["series"][CPU] == [None, *[750.0] * 9]
    assert one["gpus"] == []


async def test_longer_blocks_are_made_once_and_old_ones_go(database: Database) -> None:
    now = await now_of(database)
    begin = start_of(now - timedelta(minutes=14), 60)
    blocks = [
        Block("ctr_a", "rep_a", begin + timedelta(seconds=10 * number), 1, {CPU: [float(number)] * 10})
        for number in range(48)
    ]
    old = [
        Block("ctr_a", "rep_a", start_of(now - rung.kept - HOUR, rung.block_s), rung.step_s, {CPU: [1.0]})
        for rung in RUNGS
    ]
    async with database.transaction() as session:
        await repository.store_blocks(session, [*blocks, *old])
    engine = SimulatedEngine(SimulatedMachine(system_clock, {}), new_installation_id())
    lease = await leader(database)
    for keeper in [MetricsKeeper(database, Engines({LOCAL_ENGINE: engine}), system_clock)] * 2:
        await keeper.reconcile("all", lease)
    await MetricsKeeper(database, Engines({LOCAL_ENGINE: engine}), system_clock).reconcile("all", lease)
    since, until = now - timedelta(days=40), now + timedelta(hours=1)
    async with database.transaction() as session:
        seconds = await repository.list_blocks(session, SECONDS, since, until)
        # What was put together of the old one, before it went, is not what is asked for here.
        tens = await repository.list_blocks(session, TENS, begin, until)
        minutes = await repository.list_blocks(session, MINUTES, start_of(begin, 600), until)
        oldest = [(await repository.list_blocks(session, rung, since, until))[0].at for rung in RUNGS[:3]]
    assert [one.at for one in seconds] == [one.at for one in blocks], "the one that is too old is gone"
    assert [value for one in tens for value in one.figures[CPU]] == [float(number) for number in range(48)]
    known = [value for one in minutes for value in one.figures[CPU] if value is not None]
    expected = [sum(range(first, first + 6)) / 6 for first in range(0, 48, 6)]
    assert known == expected[: len(known)]
    assert known, "at least the ten minutes before these"
    assert all(at >= now - rung.kept - HOUR / 12 for at, rung in zip(oldest, RUNGS, strict=False))


async def test_a_day_ends_with_what_is_not_put_together_yet(api: Api) -> None:
    project_id, container_id = await container_of(api)
    replica_id = await started(
        api,
        SimulatedEngine(SimulatedMachine(VirtualClock(), {IMAGE: SimulatedImage()}), new_installation_id()),
        container_id,
        0,
    )
    now = await now_of(api.database)
    minute = start_of(now - timedelta(minutes=2), 60)
    figures = {CPU: [100.0] * 6}
    blocks = [
        Block(container_id, replica_id, minute - timedelta(minutes=number), 10, figures)
        for number in range(1, 30)
    ]
    newest = Block(container_id, replica_id, minute, 1, {CPU: [200.0] * 10})
    doubled = Block(container_id, replica_id, minute - timedelta(minutes=1), 1, {CPU: [999.0] * 10})
    async with api.database.transaction() as session:
        await repository.store_blocks(session, [*blocks, newest, doubled])
    (replica,) = await read(
        api, project_id, container_id, minute - timedelta(minutes=30), minute + timedelta(seconds=20), 10
    )
    assert replica["series"][CPU] == [*[None] * 6, *[100.0] * 174, 200.0, None]

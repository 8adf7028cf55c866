"""The whole way from a real process to stored lines."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from log_support import KEYRING, OURS, World, eventually, new_world
from sqlalchemy import text

from moorage.containers.models import ReplicaRow
from moorage.engines.base import LOCAL_ENGINE, ImageRequest, ReplicaPhase, ReplicaSpec
from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.daemon import ensure_engine
from moorage.engines.docker.engine import DockerEngine
from moorage.engines.engines import Engines
from moorage.kit.clock import system_clock
from moorage.kit.daemon import Daemon
from moorage.kit.database import Database
from moorage.kit.ids import (
    ContainerId,
    InstallationId,
    ProjectId,
    ReplicaId,
    new_installation_id,
    new_organization_id,
)
from moorage.kit.settings import Settings
from moorage.telemetry.logs.copying import Source
from moorage.telemetry.logs.cursor import ENGINE_AWAY
from moorage.telemetry.logs.follower import Follower
from moorage.telemetry.logs.preparing import Preparer
from tests.engine_fixtures import is_own_engine, remove_installation
from tests.ports import free_port

COLLECTOR = str(Path(__file__).with_name("log_collector_process.py"))


@pytest.fixture
def installation_id() -> InstallationId:
    return new_installation_id()


@pytest.fixture
async def engine(
    docker_host: str, busybox_image: str, installation_id: InstallationId
) -> AsyncIterator[DockerEngine]:
    docker = DockerEngine(docker_host, installation_id, system_clock)
    await docker.prepare()
    yield docker
    await docker.close()
    await remove_installation(docker_host, installation_id)


async def start(engine: DockerEngine, world: World, image: str, script: str) -> Source:
    container_id = await world.new_container()
    source = await world.new_replica(container_id)
    pinned = await engine.ensure_image(ImageRequest(image, local=True), lambda _: None)
    observed = await engine.start(
        ReplicaSpec(
            replica_id=ReplicaId(source.replica_id),
            container_id=ContainerId(container_id),
            project_id=ProjectId(world.project_id),
            organization_id=new_organization_id(),
            slot=0,
            generation=1,
            image=pinned.engine_ref,
            command=("/bin/sh", "-c", script),
            environment={},
            port=8000,
            host_port=free_port(),
            vcpu_millis=500,
            memory_bytes=64 * 1024 * 1024,
            disk_bytes=1024**3,
        )
    )
    async with world.database.transaction() as session:
        row = await session.get(ReplicaRow, source.replica_id)
        assert row is not None
        row.engine_id = observed.engine_id
    return replace(source, engine_id=observed.engine_id)


async def test_a_thousand_lines_and_death_with_a_reader_that_dies_again_and_again(
    database: Database, engine: DockerEngine, busybox_image: str
) -> None:
    world = await new_world(database)
    count = "i=0; while [ $i -lt 1000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done"
    long_line = "head -c 100000 /dev/zero | cat -v | head -c 100000; echo"
    script = f"{count}; {long_line}; printf 'the last words'"
    source = await start(engine, world, busybox_image, script)
    cancelled = 0
    while (await world.replica(source.replica_id)).collected_at is None:
        follower = Follower(
            source,
            database,
            Engines({LOCAL_ENGINE: engine}),
            KEYRING,
            system_clock,
            world.lease,
            asyncio.Semaphore(3),
            Preparer(system_clock),
        )
        task = asyncio.create_task(follower.run())
        await asyncio.wait({task}, timeout=0.02 + 0.05 * cancelled if cancelled < 10 else None)
        cancelled += task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert cancelled > 0
    lines = await world.stored(source.replica_id)
    assert [line.text for line in lines if line.stream == 2] == [f"err {number}" for number in range(1000)]
    out = [line.text for line in lines if line.stream == 1]
    assert out[:1000] == [f"out {number}" for number in range(1000)]
    assert len(out) == 1002
    assert out[1000] == "^@" * 8192 + f" … [{100_000 - 16_384} bytes cut]"
    assert out[1001] == "the last words"
    assert [line.sequence for line in lines] == list(range(2002))


COUNTED = "while [ $i -lt {end} ]; do echo line $i; i=$((i+1)); done"
ALL_THOUSAND = [f"line {number}" for number in range(1000)]


async def follow_to_the_end(world: World, engine: DockerEngine, source: Source) -> None:
    follower = Follower(
        source,
        world.database,
        Engines({LOCAL_ENGINE: engine}),
        KEYRING,
        system_clock,
        world.lease,
        asyncio.Semaphore(3),
        Preparer(system_clock),
    )
    async with asyncio.timeout(60):
        await follower.run()


async def test_a_thousand_lines_and_death_at_once(
    database: Database, engine: DockerEngine, busybox_image: str
) -> None:
    world = await new_world(database)
    source = await start(engine, world, busybox_image, f"i=0; {COUNTED.format(end=1000)}")
    await follow_to_the_end(world, engine, source)
    assert await world.texts(source.replica_id) == ALL_THOUSAND


@pytest.mark.parametrize("when", ["while it prints", "after it died"])
@pytest.mark.long
async def test_the_controller_is_killed_and_started_again(
    database: Database,
    database_dsn: str,
    docker_host: str,
    installation_id: InstallationId,
    engine: DockerEngine,
    busybox_image: str,
    when: str,
) -> None:
    world = await new_world(database)
    await let_the_lease_go(world)
    halves = (
        f"i=0; {COUNTED.format(end=500)}; nc -l -p 8000 >/dev/null </dev/null; {COUNTED.format(end=1000)}"
    )
    source = await start(engine, world, busybox_image, halves)
    command = (sys.executable, COLLECTOR, database_dsn, docker_host, installation_id)

    async def stored_some() -> bool:
        return len(await world.stored(source.replica_id)) > 0

    async def collected() -> bool:
        return (await world.replica(source.replica_id)).collected_at is not None

    first = await asyncio.create_subprocess_exec(*command)
    try:
        await eventually(stored_some, "the first collector stores", timeout_s=60)
    finally:
        first.kill()
        await first.wait()
    assert len(await world.stored(source.replica_id)) <= 500
    await let_the_lease_go(world)
    if when == "after it died":
        await eventually(lambda: goes_on(engine, source), "the replica ends", timeout_s=60)
    second = await asyncio.create_subprocess_exec(*command)
    try:
        await eventually(lambda: goes_on(engine, source), "the replica ends", timeout_s=60)
        await eventually(collected, "all is collected", timeout_s=60)
    finally:
        second.kill()
        await second.wait()
    assert await world.texts(source.replica_id) == ALL_THOUSAND


@pytest.mark.parametrize("ends", ["later", "while no engine is there"])
@pytest.mark.long
async def test_docker_is_killed_and_started_again(
    database: Database,
    docker_host: str,
    engine_settings: Settings,
    engine: DockerEngine,
    busybox_image: str,
    ends: str,
) -> None:
    """The replica goes on printing meanwhile. If it also ends meanwhile, Docker has lost that; then we say so."""
    if not is_own_engine(engine_settings, docker_host):
        pytest.skip("the machine's own Docker engine is in use, and it is not ours to kill")
    daemon = Daemon("dockerd", engine_settings.run_dir.absolute())
    world = await new_world(database)
    waits = "nc -l -p 8000 >/dev/null </dev/null" if ends == "later" else "true"
    halves = f"i=0; {COUNTED.format(end=500)}; sleep 3; {COUNTED.format(end=1000)}; {waits}"
    source = await start(engine, world, busybox_image, halves)
    printer_pid = await process_id(docker_host, source)
    async with asyncio.TaskGroup() as group:
        group.create_task(follow_to_the_end(world, engine, source))

        async def half_stored() -> bool:
            return len(await world.stored(source.replica_id)) == 500

        async def killed() -> bool:
            return daemon.running_pid() is None

        async def printer_gone() -> bool:
            return not os.path.exists(f"/proc/{printer_pid}")  # noqa: ASYNC240 - no disk

        await eventually(half_stored, "the first half is stored", timeout_s=30)
        pid = daemon.running_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await eventually(killed, "dockerd is gone")
        if ends == "while no engine is there":
            await eventually(printer_gone, "the replica has printed the rest and ended", timeout_s=30)
        await ensure_engine(engine_settings, lambda _: None)
        await eventually(lambda: goes_on(engine, source), "the replica ends", timeout_s=30)
    lost = [*ALL_THOUSAND[:500], ENGINE_AWAY.decode()]
    assert await world.texts(source.replica_id) == (ALL_THOUSAND if ends == "later" else lost)


@pytest.mark.long
async def test_a_real_flood_is_counted_to_the_line(
    database: Database, engine: DockerEngine, busybox_image: str
) -> None:
    world = await new_world(database)
    script = "yes 'a line of a flood that goes on and on' | head -n 100000; echo the end"
    source = await start(engine, world, busybox_image, script)
    began_s = system_clock.monotonic()
    await follow_to_the_end(world, engine, source)
    lines = await world.stored(source.replica_id)
    texts = [line.text for line in lines]
    told = [int(line.text.split()[0]) for line in lines if line.stream == OURS]
    assert not [one for one in texts if "may be missing" in one]
    assert len(texts) - len(told) + sum(told) == 100_001
    assert texts[-1] == "the end" or lines[-1].stream == OURS
    took_s = system_clock.monotonic() - began_s
    print(f"{100_001 / took_s:,.0f} lines/s from dockerd; {sum(told)} dropped in {len(told)} places")


async def process_id(docker_host: str, source: Source) -> int:
    connection = DockerConnection(docker_host)
    shown = await connection.docker.containers.container(source.engine_id).show()
    await connection.close()
    return int(shown["State"]["Pid"])


async def let_the_lease_go(world: World) -> None:
    async with world.database.transaction() as session:
        await session.execute(text("UPDATE leases SET expires_at = now()"))


async def goes_on(engine: DockerEngine, source: Source) -> bool:
    """Calls at its port, which is what it waits for; whether it has ended."""
    observed = await engine.inspect(ReplicaId(source.replica_id))
    assert observed is not None
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection(observed.host, observed.host_port)
        writer.close()
        await writer.wait_closed()
    return observed.phase is ReplicaPhase.EXITED

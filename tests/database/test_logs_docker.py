"""The whole way from a real process to stored lines."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from log_support import KEYRING, World, new_world

from moorage.engines.base import ImageRequest, ReplicaSpec
from moorage.engines.docker.engine import DockerEngine
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.ids import ContainerId, ProjectId, ReplicaId, new_installation_id, new_organization_id
from moorage.telemetry.logs.copying import Source
from moorage.telemetry.logs.follower import Follower
from tests.engine_fixtures import remove_installation
from tests.ports import free_port


@pytest.fixture
async def engine(docker_host: str, busybox_image: str) -> AsyncIterator[DockerEngine]:
    installation_id = new_installation_id()
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
    return Source(source.replica_id, container_id, world.project_id, observed.engine_id)


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
            source, database, engine, KEYRING, system_clock, world.lease, writers=asyncio.Semaphore(3)
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

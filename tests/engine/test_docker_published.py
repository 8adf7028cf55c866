"""Where replicas are reached: on loopback, unless the machine has an address for them."""

import asyncio

import pytest

from moorage.engines.docker.engine import DockerEngine
from moorage.kit.clock import system_clock
from tests.engine.conftest import DockerWorld
from tests.engine.contract import spec_of


async def test_replicas_are_published_on_the_machines_address(docker_world: DockerWorld) -> None:
    address = "127.0.0.9"
    await docker_world.engine.close()
    docker_world.engine = DockerEngine(
        docker_world.docker_host, docker_world.installation_id, system_clock, published_on=address
    )
    await docker_world.engine.prepare()
    started = await docker_world.engine.start(await spec_of(docker_world, "serves"))
    assert started.host == address

    async def answers() -> bool:
        try:
            _, writer = await asyncio.open_connection(address, started.host_port)
        except OSError:
            return False
        writer.close()
        return True

    await docker_world.until(answers)
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", started.host_port)

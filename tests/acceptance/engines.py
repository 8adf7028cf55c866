"""Docker engines that a test has for itself."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.create import LABEL_INSTALLATION
from moorage.engines.docker.daemon import ensure_own_engine, remove_engine_data, stop_engine
from moorage.engines.docker.network import BridgeNetwork
from moorage.kit.ids import InstallationId
from moorage.kit.settings import Settings


@contextmanager
def an_engine(home: Path) -> Iterator[str]:
    """A machine of its own, as far as Docker goes: nothing is on it, and nothing of it stays."""
    settings = Settings(home=home)
    settings.run_dir.mkdir(parents=True)
    settings.log_dir.mkdir(parents=True)
    docker_host = asyncio.run(ensure_own_engine(settings, print))
    try:
        yield docker_host
    finally:
        asyncio.run(empty(docker_host))
        asyncio.run(stop_engine(settings))
        asyncio.run(remove_engine_data(settings))


async def empty(docker_host: str) -> None:
    await remove_replicas(docker_host)
    connection = DockerConnection(docker_host)
    for network in await connection.docker.networks.list(filters={"label": [LABEL_INSTALLATION]}):
        await BridgeNetwork(InstallationId(network["Labels"][LABEL_INSTALLATION])).dismantle(connection)
    await connection.close()


async def remove_replicas(docker_host: str) -> int:
    """As `docker rm -f` does it."""
    connection = DockerConnection(docker_host)
    containers = await connection.docker.containers.list(filters={"label": [LABEL_INSTALLATION]})
    for container in containers:
        await container.delete(force=True, v=True)
    await connection.close()
    return len(containers)

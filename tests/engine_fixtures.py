"""A real Docker engine for the tests: the machine's own if one runs, else one in a temporary folder.

Load it with `pytest_plugins = ["tests.engine_fixtures"]` in tests/conftest.py. Everything that a session
starts is gone at its end; a system engine is left as it was found, so tests remove their own objects.
"""

import asyncio
import io
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiodocker
import pytest

from moorage.engines.docker.caches import Caches
from moorage.engines.docker.connection import DockerConnection
from moorage.engines.docker.create import LABEL_INSTALLATION
from moorage.engines.docker.daemon import ensure_engine, remove_engine_data, stop_engine
from moorage.engines.docker.network import BridgeNetwork
from moorage.kit.ids import InstallationId
from moorage.kit.settings import Settings
from tests.packages import static_busybox

BUSYBOX_IMAGE = "local/busybox-moorage:test"
_APPLETS = ("sh", "cat", "dd", "echo", "head", "httpd", "nc", "printf", "sleep", "true", "wget", "yes")


@pytest.fixture(scope="session")
def engine_settings() -> Iterator[Settings]:
    # pytest's own temporary folders are too deep for a unix socket.
    home = Path(tempfile.mkdtemp(prefix="moor-", dir="/tmp"))
    yield Settings(home=home)
    shutil.rmtree(home)


@pytest.fixture(scope="session")
def docker_host(engine_settings: Settings) -> Iterator[str]:
    with ThreadPoolExecutor(1) as beside:  # In this thread Playwright's event loop may be running.
        host = beside.submit(asyncio.run, ensure_engine(engine_settings, print)).result()
        yield host
        if is_own_engine(engine_settings, host):
            beside.submit(asyncio.run, _end_own_engine(engine_settings)).result()


@pytest.fixture(scope="session")
def busybox_image(docker_host: str) -> str:
    return asyncio.run(build_busybox(docker_host))


def is_own_engine(settings: Settings, docker_host: str) -> bool:
    return docker_host == f"unix://{settings.run_dir.absolute()}/docker.sock"


async def remove_installation(docker_host: str, installation_id: InstallationId) -> None:
    """Every object of one installation: replicas, caches, network, firewall rules."""
    connection = DockerConnection(docker_host)
    for container in await connection.docker.containers.list(all="1"):
        if container["Labels"].get(LABEL_INSTALLATION) == installation_id:
            await container.delete(force=True, v=True)
    caches = Caches(connection, installation_id)
    for cache in await caches.held():
        assert await caches.remove(cache.container_id, cache.replica_id)
    await BridgeNetwork(installation_id).dismantle(connection)
    await connection.close()


async def _end_own_engine(settings: Settings) -> None:
    host = await ensure_engine(settings, print)  # a test may have left it dead
    connection = DockerConnection(host)
    for container in await connection.docker.containers.list(all="1"):
        await container.delete(force=True, v=True)
    for network in await connection.docker.networks.list(filters={"label": [LABEL_INSTALLATION]}):
        await BridgeNetwork(InstallationId(network["Labels"][LABEL_INSTALLATION])).dismantle(connection)
    await connection.close()
    await stop_engine(settings)
    await remove_engine_data(settings)


async def build_busybox(docker_host: str) -> str:
    """2 MB, made without a registry: Debian's static busybox on an empty filesystem, EXPOSE 8000."""
    busybox = await asyncio.to_thread(static_busybox().read_bytes)
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        _add(archive, "Dockerfile", b'FROM scratch\nCOPY root /\nEXPOSE 8000\nCMD ["/bin/sh"]\n', 0o644)
        _add(archive, "root/bin/busybox", busybox, 0o755)
        _add(archive, "root/www/index.html", b"hello from busybox\n", 0o644)
        _add(archive, "root/etc/not-executable", b"#!/bin/sh\n", 0o644)
        for applet in _APPLETS:
            link = tarfile.TarInfo(f"root/bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    context.seek(0)
    connection = DockerConnection(docker_host)
    docker: aiodocker.Docker = connection.docker
    await docker.images.build(fileobj=context, encoding="identity", tag=BUSYBOX_IMAGE)
    await connection.close()
    return BUSYBOX_IMAGE


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))

"""A Docker world for the contract and for what only Docker has; `docker_host` is in tests/engine_fixtures.py."""

import asyncio
import platform
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.engines.base import ImageRequest
from moorage.engines.docker import firewall
from moorage.engines.docker.engine import DockerEngine
from moorage.kit.clock import system_clock
from moorage.kit.ids import new_installation_id
from moorage.outbound.pulls.proxy import PullProxy
from tests.engine.contract import Traits
from tests.engine.registry import Registry
from tests.engine_fixtures import remove_installation
from tests.ports import free_port

COMMANDS = {
    "serves": 'trap "exit 0" TERM; httpd -f -p $PORT -h /www & wait',
    "exits": "sleep 0.3; exit 3",
    "prints": "echo one; sleep 0.1; echo two >&2; sleep 0.1; echo three",
    # The main process outlives its worker by a second: killed itself, the flag is now and then lost on its way
    # through containerd (its event comes after the cgroup is gone), which no engine above it can fix.
    "runs_out_of_memory": "dd if=/dev/zero of=/dev/null bs=300M count=1; sleep 1; exit 137",
    "computes": "while :; do :; done",
    "holds_memory": "head -c 16777216 /dev/zero > /dev/shm/held; while true; do sleep 1; done",
    "ignores_stop": 'trap "" TERM; while true; do sleep 1; done',
}
_DEADLINE_S = 20.0
TEST_PORTS = (10_000, 19_999)
_ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def pull_proxy(allowed: tuple[str, ...], **changes: Any) -> PullProxy:
    limits = {"max_image_bytes": 2**30, "pulls_per_organization": 3} | changes
    return PullProxy(system_clock, allowed_registries=allowed, **limits)


class DockerWorld:
    architecture = _ARCHITECTURE
    traits = Traits()

    def __init__(
        self, docker_host: str, busybox_image: str, unknown_remote_image: str, pulls: PullProxy | None = None
    ) -> None:
        self.docker_host = docker_host
        self.replicas_at = "127.0.0.1"
        self.pulls = pulls
        self.installation_id, self.other_installation_id = new_installation_id(), new_installation_id()
        self.engine = DockerEngine(docker_host, self.installation_id, system_clock, pulls=pulls)
        self.other_engine = DockerEngine(docker_host, self.other_installation_id, system_clock)
        self.unknown_remote_image = unknown_remote_image
        self._busybox_image = busybox_image

    def image(self, behaviour: str) -> ImageRequest:
        return ImageRequest(self._busybox_image, local=True)

    def command(self, behaviour: str) -> tuple[str, ...]:
        return ("/bin/sh", "-c", COMMANDS[behaviour])

    def free_port(self) -> int:
        return free_port()

    async def until(self, condition: Callable[[], Awaitable[bool]]) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while not await condition():
            assert time.monotonic() < deadline, "the condition did not come true in time"
            await asyncio.sleep(0.02)


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    async with Registry(_ARCHITECTURE) as running:
        yield running


@pytest.fixture
async def private_registry() -> AsyncIterator[Registry]:
    async with Registry(_ARCHITECTURE, needs_password=True) as running:
        yield running


@pytest.fixture
async def pulls(registry: Registry, private_registry: Registry) -> AsyncIterator[PullProxy]:
    allowed = (registry.host, private_registry.host)
    async with pull_proxy(allowed) as proxy:
        yield proxy


@pytest.fixture
async def docker_world(
    docker_host: str, busybox_image: str, registry: Registry, pulls: PullProxy
) -> AsyncIterator[DockerWorld]:
    world = DockerWorld(docker_host, busybox_image, f"{registry.host}/absent:1", pulls)
    await world.engine.prepare()
    yield world
    for engine in (world.engine, world.other_engine):
        await engine.close()
    for installation_id in (world.installation_id, world.other_installation_id):
        await remove_installation(docker_host, installation_id)


@pytest.fixture
def short_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="moor-", dir="/tmp"))
    yield home
    shutil.rmtree(home)


@pytest.fixture
async def guarded_world(docker_world: DockerWorld) -> DockerWorld:
    """With the rules of a deployed installation, for the ports that tests use."""
    await docker_world.engine.close()
    use = firewall.LocalUse(TEST_PORTS, (0,))
    docker_world.engine = DockerEngine(
        docker_world.docker_host,
        docker_world.installation_id,
        system_clock,
        local_use=use,
        pulls=docker_world.pulls,
    )
    await docker_world.engine.prepare()
    return docker_world

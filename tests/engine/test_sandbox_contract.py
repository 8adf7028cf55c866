"""The Docker engine passes the contract with its containers in a sandbox, too."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from moorage.engines.docker.engine import DockerEngine
from moorage.engines.sandboxes import SANDBOX_RUNTIME
from moorage.kit.clock import system_clock
from moorage.machines.on_machine.sandbox import set_up_sandbox
from moorage.outbound.pulls.proxy import PullProxy
from tests.engine.conftest import DockerWorld
from tests.engine.contract import MEBIBYTE, EngineContract, Traits
from tests.engine.registry import Registry
from tests.engine.sandboxed_engine import SandboxedEngine, sandboxed_engine
from tests.engine_fixtures import BUSYBOX_IMAGE, build_busybox, remove_installation

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def lent() -> Iterator[SandboxedEngine]:
    with sandboxed_engine() as engine:
        files = {"file": engine.settings_file, "pid_files": (engine.pid_file,)}
        asyncio.run(set_up_sandbox(engine.host, with_gpus=False, **files))
        asyncio.run(build_busybox(engine.host))
        yield engine


@pytest.fixture
async def world(lent: SandboxedEngine, registry: Registry, pulls: PullProxy) -> AsyncIterator[DockerWorld]:
    world = DockerWorld(lent.host, BUSYBOX_IMAGE, f"{registry.host}/absent:1", pulls)
    world.traits = Traits(overhead_bytes=24 * MEBIBYTE)
    await world.engine.close()
    world.engine = DockerEngine(
        lent.host, world.installation_id, system_clock, pulls=pulls, runtime=SANDBOX_RUNTIME
    )
    await world.engine.prepare()
    yield world
    for engine in (world.engine, world.other_engine):
        await engine.close()
    for installation_id in (world.installation_id, world.other_installation_id):
        await remove_installation(lent.host, installation_id)


class TestSandboxedContract(EngineContract):
    pass

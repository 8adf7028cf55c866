"""A machine that leaves: nothing of the installation stays on its engine, and everything of others does."""

import subprocess
from dataclasses import replace

import pytest

from moorage.engines.base import CacheSpec
from moorage.engines.docker.network import BridgeNetwork
from moorage.kit.errors import SetupError
from moorage.machines.on_machine.containers import end_containers
from tests.engine.conftest import DockerWorld
from tests.engine.contract import MEBIBYTE, spec_of


@pytest.mark.long
async def test_what_runs_ends_with_its_network(docker_world: DockerWorld) -> None:
    engine, other = docker_world.engine, docker_world.other_engine
    await other.prepare()
    theirs = await spec_of(docker_world, "serves")
    await other.start(theirs)
    await engine.start(replace(await spec_of(docker_world, "serves"), cache=CacheSpec(MEBIBYTE)))
    await engine.start(await spec_of(docker_world, "exits"))
    network = BridgeNetwork(docker_world.installation_id)

    assert await end_containers(docker_world.docker_host, docker_world.installation_id) == 2
    assert await engine.list_replicas() == []
    assert await engine.caches() == []
    assert network.suffix not in _rules()
    assert [one.replica_id for one in await other.list_replicas()] == [theirs.replica_id]
    assert BridgeNetwork(docker_world.other_installation_id).suffix in _rules()
    assert await end_containers(docker_world.docker_host, docker_world.installation_id) == 0


async def test_an_engine_that_does_not_answer_is_said_and_not_passed_over(docker_world: DockerWorld) -> None:
    with pytest.raises(SetupError, match="Cannot end the installation"):
        await end_containers("unix:///nonexistent/docker.sock", docker_world.installation_id)


def _rules() -> str:
    return subprocess.run(["iptables-save"], capture_output=True, text=True, check=True, timeout=30).stdout

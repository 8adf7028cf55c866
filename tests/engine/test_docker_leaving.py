"""A machine that leaves an installation runs nothing of it any more."""

from pathlib import Path

from moorage.engines.docker.engine import DockerEngine
from moorage.kit.clock import system_clock
from moorage.machines.on_machine.replicas import end_replicas
from tests.engine.conftest import DockerWorld
from tests.engine.contract import spec_of


async def test_what_an_installation_runs_ends_and_nothing_else(docker_world: DockerWorld) -> None:
    await docker_world.engine.prepare()
    await docker_world.engine.start(await spec_of(docker_world, "serves"))
    other = DockerEngine(docker_world.docker_host, docker_world.installation_id, system_clock)
    await end_replicas(docker_world.docker_host, "ins_" + "z" * 20)
    assert len(await other.list_replicas()) == 1, "another installation's are not touched"
    await end_replicas(docker_world.docker_host, docker_world.installation_id)
    assert await other.list_replicas() == []
    await end_replicas(docker_world.docker_host, docker_world.installation_id)
    await other.close()


async def test_without_an_engine_there_is_nothing_to_end(tmp_path: Path) -> None:
    await end_replicas(f"unix://{tmp_path}/docker.sock", "ins_" + "z" * 20)

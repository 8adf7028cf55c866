"""Why a replica was killed, where Docker's record of its end does not say it."""

import aiodocker

from moorage.engines.base import ReplicaPhase
from tests.engine.conftest import DockerWorld
from tests.engine.contract import spec_of, until_exited


async def test_its_events_tell_of_memory_that_ran_out(docker_world: DockerWorld) -> None:
    spec = await spec_of(docker_world, "runs_out_of_memory")
    await docker_world.engine.start(spec)
    exited = await until_exited(docker_world, spec)
    assert await docker_world.engine._ran_out_of_memory(exited)


async def test_a_signal_is_not_for_want_of_memory(docker_world: DockerWorld, docker_host: str) -> None:
    spec = await spec_of(docker_world, "serves")
    started = await docker_world.engine.start(spec)
    docker = aiodocker.Docker(docker_host)
    await docker.containers.container(started.engine_id).kill(signal="KILL")
    await docker.close()
    exited = await until_exited(docker_world, spec)
    assert (exited.phase, exited.exit_code, exited.out_of_memory) == (ReplicaPhase.EXITED, 137, False)

"""The remote engine, with a tunnel, a node role and a Docker engine behind it, passes the contract that every engine passes."""

import aiohttp
import pytest

from tests.engine.conftest import DockerWorld
from tests.engine.contract import EngineContract, spec_of
from tests.engine.far_machine import far_machine, far_world  # noqa: F401 - fixtures


@pytest.fixture
def world(far_world: DockerWorld) -> DockerWorld:  # noqa: F811
    return far_world


@pytest.mark.long
class TestRemoteContract(EngineContract):
    async def test_a_replica_answers_through_the_tunnel(self, world: DockerWorld) -> None:
        spec = await spec_of(world, "serves")
        started = await world.engine.start(spec)
        assert started.host is not None

        async def answers() -> bool:
            try:
                async with (
                    aiohttp.ClientSession() as http,
                    http.get(f"http://{started.host}:{started.host_port}/absent") as answer,
                ):
                    return answer.status == 404
            except aiohttp.ClientError:
                return False

        await world.until(answers)
        await world.engine.stop(started.engine_id, grace_s=2)

"""The remote engine, with a node role and a Docker engine behind it, passes the contract that every engine passes."""

import pytest

from tests.engine.conftest import DockerWorld
from tests.engine.contract import EngineContract
from tests.engine.remote_world import remote_world  # noqa: F401 - a fixture


@pytest.fixture
def world(remote_world: DockerWorld) -> DockerWorld:  # noqa: F811
    return remote_world


@pytest.mark.long
class TestRemoteContract(EngineContract):
    pass

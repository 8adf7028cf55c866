"""The Docker engine passes the contract that every engine passes."""

import pytest

from tests.engine.conftest import DockerWorld
from tests.engine.contract import EngineContract


@pytest.fixture
def world(docker_world: DockerWorld) -> DockerWorld:
    return docker_world


class TestDockerContract(EngineContract):
    pass

"""The Kubernetes engine passes the contract against a real cluster, with the rights that it really has there."""

import pytest

from moorage.engines.kubernetes.engine import KubernetesEngine
from tests.engine.contract import EngineContract, World
from tests.kubernetes.cluster_world import RealWorld

pytestmark = pytest.mark.cluster


@pytest.fixture
def world(real: RealWorld) -> RealWorld:
    return real


class TestClusterContract(EngineContract):
    async def test_capacity(self, world: World) -> None:
        """Of two nodes."""
        assert isinstance(world.engine, KubernetesEngine)
        nodes = await world.engine.capacity()
        assert [node.name for node in nodes] == ["node-1", "node-2"]
        assert all(
            node.cpu_millis >= 1000 and node.memory_bytes > 2**28 and node.takes_replicas for node in nodes
        )
        assert len({node.engine_identity for node in nodes}) == 2

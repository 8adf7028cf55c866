"""A real cluster for the session, and a world in it for each test."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.kubernetes.cluster_world import RealWorld, real_world
from tests.kubernetes.real_cluster import RealCluster, real_cluster


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def cluster() -> AsyncIterator[RealCluster]:
    async with real_cluster(nodes=2) as running:
        yield running


@pytest.fixture
async def real(cluster: RealCluster) -> AsyncIterator[RealWorld]:
    async with real_world(cluster) as running:
        await running.engine.prepare()
        yield running

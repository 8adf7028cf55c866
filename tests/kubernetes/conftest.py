from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.certificates import write_certificate
from tests.kubernetes.cluster_fixtures import cluster, real  # noqa: F401 - fixtures
from tests.kubernetes.world import ClusterWorld, cluster_world


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stand-in") / "server.pem"
    write_certificate(path, "127.0.0.1")
    return path


@pytest.fixture
async def world(certificate: Path, tmp_path: Path) -> AsyncIterator[ClusterWorld]:
    async with cluster_world(certificate, tmp_path) as running:
        await running.engine.prepare()
        yield running

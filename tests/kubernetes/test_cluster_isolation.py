"""What a Pod reaches in a real cluster: everything, where nobody enforces policies; nothing but what is public, where somebody does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from moorage.engines.base import ReplicaPhase
from moorage.engines.kubernetes.engine import KubernetesEngine
from moorage.engines.kubernetes.isolation import canary
from moorage.kit.errors import EngineError
from moorage.outbound.networks import METADATA_SERVICE
from tests.engine.contract import Recorder, logs_of, spec_of, start
from tests.kubernetes.cluster_world import RealWorld
from tests.kubernetes.policies import enforced
from tests.kubernetes.real_cluster import ADDRESS, BRIDGE, run

pytestmark = pytest.mark.cluster

PUBLIC = "5.5.5.5"
PRIVATE = (
    "10.9.9.9",
    "172.20.1.1",
    "192.168.77.7",
    "100.70.0.1",
    METADATA_SERVICE,
    "198.18.0.9",
    "203.0.113.9",
)


@pytest.fixture
async def trying(real: RealWorld) -> AsyncIterator[KubernetesEngine]:
    engine = real.new_engine(real.installation_id, isolation=None)
    yield engine
    await engine.close()


@asynccontextmanager
async def listening(addresses: tuple[str, ...], port: int) -> AsyncIterator[None]:
    """This side of the bridge has these addresses too, and something listens there."""
    for address in addresses:
        run("ip", "addr", "add", f"{address}/32", "dev", BRIDGE)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "0.0.0.0", port)
    try:
        yield
    finally:
        server.close()
        for address in addresses:
            run("ip", "addr", "del", f"{address}/32", "dev", BRIDGE)


async def reached(real: RealWorld, targets: list[tuple[str, int]]) -> set[tuple[str, int]]:
    """From a replica on the first node."""
    image = await real.engine.ensure_image(real.image("serves"), Recorder())
    script = canary(image.engine_ref, "node-1", targets)
    spec = replace(await spec_of(real, "serves"), command=script.command, avoided_nodes=("node-2",))
    # A Pod whose policy has not come yet reaches nothing, which would prove nothing.
    spec = replace(spec, command=("sh", "-c", f"sleep 3; {script.command[2]}"))  # type: ignore[index]
    started = await start(real, spec)
    lines = [line.data.decode() for line in await logs_of(real, started.engine_id)]
    assert lines[-2:] == ["able", "tried"]
    return {(line.split()[1], int(line.split()[2])) for line in lines[:-2]}


async def test_a_cluster_that_enforces_no_policy_is_found_out(
    real: RealWorld, trying: KubernetesEngine
) -> None:
    """Canaries reach kubelets, and nothing starts."""
    await trying.prepare()
    nodes = await trying.capacity()
    assert [node.name for node in nodes] == ["node-1", "node-2"]
    assert all("reached 10.77.0.1" in (node.closed_because or "") for node in nodes), nodes
    with pytest.raises(EngineError) as caught:
        await trying.start(await spec_of(real, "serves"))
    assert caught.value.code == "not_isolated"
    assert await trying.list_replicas() == []


async def test_where_policies_are_enforced_nothing_is_reached_but_what_is_public(
    real: RealWorld, trying: KubernetesEngine
) -> None:
    port = 4711
    neighbours = [
        (await start(real, replace(await spec_of(real, "serves"), avoided_nodes=(avoided,)))).host
        for avoided in real.cluster.nodes
    ]
    api_server = int(real.cluster.server.server.rpartition(":")[2])
    forbidden = [(address, port) for address in (*PRIVATE, ADDRESS)]
    forbidden += [
        (node.address, one) for node in real.cluster.nodes.values() for one in (10250, 10248, 10256, 22, port)
    ]
    forbidden += [(ADDRESS, one) for one in (api_server, 2379, 2380, 10257, 10259, real.cluster.pull_port)]
    pods = [(host, 8000) for host in neighbours if host is not None]
    forbidden += [*pods, ("10.96.0.1", 443)]
    assert len(forbidden) >= 25
    async with listening((*PRIVATE, PUBLIC), port):
        open_cluster = await reached(real, [*forbidden, (PUBLIC, port)])
        assert {(PUBLIC, port), (METADATA_SERVICE, port), *pods} <= open_cluster, "it could reach them"
        async with enforced(real.cluster, real.admin):
            await trying.prepare()
            assert [node.closed_because for node in await trying.capacity()] == [None, None]
            found = await reached(real, [*forbidden, (PUBLIC, port)])
            assert found == {(PUBLIC, port)}
            print(
                f"of {len(forbidden)} addresses {len(open_cluster) - 1} were reached without policies, 0 with them"
            )
            spec = await spec_of(real, "serves")
            await trying.ensure_image(real.image("serves"), Recorder())
            assert (await trying.start(spec)).phase is not ReplicaPhase.EXITED

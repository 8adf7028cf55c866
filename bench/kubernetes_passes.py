"""What a pass over a container asks of a cluster with many Pods, and what a sweep over all of them takes, at a stand-in API server."""

import copy
import resource
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the stand-in is the tests' own

from moorage.engines.kubernetes.engine import KubernetesEngine
from moorage.engines.kubernetes.names import LABEL_CONTAINER, LABEL_REPLICA, name_of
from moorage.kit import ids
from moorage.kit.ids import ReplicaId
from tests.certificates import write_certificate
from tests.engine.contract import spec_of, start
from tests.kubernetes.world import ClusterWorld, cluster_world

TARGET_MS = 50.0
REPLICAS = 3
"""Of the container whose pass is measured."""
_PASSES_PER_ROUND = 20


@dataclass
class Measured:
    pods: int
    empty_mib: float
    """Of the process, before there were Pods."""
    filled_mib: float
    """And once the stand-in had them."""
    pass_ms: list[float] = field(default_factory=list)
    sweep_ms: list[float] = field(default_factory=list)
    most_mib: float = 0.0


async def measure(pods: int, rounds: int) -> Measured:
    with tempfile.TemporaryDirectory(prefix="moor-bench-") as name:
        folder = Path(name)
        certificate = folder / "server.pem"
        write_certificate(certificate, "127.0.0.1")
        async with cluster_world(certificate, folder, nodes=("node-1", "node-2")) as world:
            await world.engine.prepare()
            empty_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            watched = await _fill(world, pods)
            filled_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            measured = Measured(pods, empty_mib, filled_mib)
            for _ in range(rounds):
                for _ in range(_PASSES_PER_ROUND):
                    measured.pass_ms.append(await _pass_ms(world.engine, watched))
                measured.sweep_ms.append(await _sweep_ms(world.engine, pods))
            measured.most_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            return measured


def report(measured: Measured) -> None:
    once, all_of_them = statistics.median(measured.pass_ms), statistics.median(measured.sweep_ms)
    slow = sorted(measured.pass_ms)[int(len(measured.pass_ms) * 0.95)]
    met = "met" if once <= TARGET_MS else "MISSED"
    print(f"\n{measured.pods:,} Pods, each with its door; stand-in and engine in one process")
    print(
        f"A pass over a container with {REPLICAS} replicas: {once:.1f} ms at the median, {slow:.1f} ms at the 95th percentile "
        f"(target {TARGET_MS:g} ms: {met})"
    )
    print(
        f"A sweep over all of them: {all_of_them:.0f} ms, most of it the stand-in's own. Memory of the process: {measured.empty_mib:.0f} MiB before, "
        f"{measured.filled_mib:.0f} MiB with the stand-in's Pods, {measured.most_mib:.0f} MiB at most, in a sweep"
    )


async def _pass_ms(engine: KubernetesEngine, replicas: list[ReplicaId]) -> float:
    began = time.perf_counter()
    for replica_id in replicas:
        assert await engine.inspect(replica_id) is not None
    return (time.perf_counter() - began) * 1e3


async def _sweep_ms(engine: KubernetesEngine, pods: int) -> float:
    began = time.perf_counter()
    assert len(await engine.list_replicas()) == pods
    return (time.perf_counter() - began) * 1e3


async def _fill(world: ClusterWorld, pods: int) -> list[ReplicaId]:
    """One Pod is really started; the others are like it."""
    spec = await spec_of(world, "serves")
    await start(world, spec)
    key, pod = next(
        (key, item)
        for key, item in world.server.store.objects.items()
        if key[0] == "pods" and item["metadata"]["labels"].get(LABEL_REPLICA) == spec.replica_id
    )
    made = [spec.replica_id]
    world.server.store.listeners.clear()  # nobody runs them
    for number in range(1, pods):
        replica_id = ids.new_replica_id()
        container_id = spec.container_id if number < REPLICAS else ids.new_container_id()
        world.server.store.create((key[0], key[1], name_of(replica_id)), _like(pod, replica_id, container_id))
        made.append(replica_id)
    return made[:REPLICAS]


def _like(pod: dict[str, Any], replica_id: str, container_id: str) -> dict[str, Any]:
    other = copy.deepcopy(pod)
    other["metadata"]["labels"] |= {LABEL_REPLICA: replica_id, LABEL_CONTAINER: container_id}
    return other

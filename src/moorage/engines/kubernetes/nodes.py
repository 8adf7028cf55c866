"""From a cluster's Nodes, and what other people's Pods request there, to machines. Pure.

What Moorage may promise of a node is what the kubelet hands out, less what Pods request that are not Moorage's. GPUs have no
ids before a Pod has one: each node's are numbered, and a replica's row holds numbers, so that they are counted like any others.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from moorage.engines.base import GpuDevice, GpuHandover, NodeCapacity
from moorage.engines.kubernetes.names import INFRASTRUCTURE_LABEL
from moorage.engines.kubernetes.quantities import bytes_of, millis_of

GPU_RESOURCE = "nvidia.com/gpu"
PRODUCT_LABEL = "nvidia.com/gpu.product"
ARCHITECTURE_LABEL = "kubernetes.io/arch"
HOSTNAME_LABEL = "kubernetes.io/hostname"
OPERATOR, COMMUNITY = "operator", "community"
_MEMORY_LABEL = "nvidia.com/gpu.memory"
_SHARING_LABEL = "nvidia.com/gpu.sharing-strategy"
_DRIVER_LABELS = (
    ("nvidia.com/cuda.driver-version.full",),
    ("nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev"),
)
_CUDA_LABELS = (
    ("nvidia.com/cuda.runtime-version.full",),
    ("nvidia.com/cuda.runtime.major", "nvidia.com/cuda.runtime.minor"),
)
_MEBIBYTE = 1024 * 1024
_CPU, _MEMORY = "cpu", "memory"


@dataclass(frozen=True)
class NodeSeen:
    """What matters of a Node besides its size."""

    name: str
    uid: str
    architecture: str
    ready: bool
    unready_since: datetime | None
    schedulable: bool
    addresses: tuple[str, ...]
    kubelet: tuple[str, int] | None
    """Where its kubelet listens."""


@dataclass
class Requested:
    """By Pods that are not Moorage's, on one node."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    gpus: int = 0


@dataclass(frozen=True)
class Isolation:
    closed_because: str | None = None
    weaknesses: tuple[str, ...] = field(default=())


def node_seen(node: Mapping[str, Any]) -> NodeSeen:
    status, labels = node.get("status", {}), node["metadata"].get("labels") or {}
    ready = next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), None)
    is_ready = ready is not None and ready["status"] == "True"
    addresses = [one for one in status.get("addresses", ()) if one["type"] in ("InternalIP", "ExternalIP")]
    internal = next((one["address"] for one in addresses if one["type"] == "InternalIP"), None)
    port = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port")
    return NodeSeen(
        name=node["metadata"]["name"],
        uid=node["metadata"]["uid"],
        architecture=labels.get(ARCHITECTURE_LABEL) or status.get("nodeInfo", {}).get("architecture", ""),
        ready=is_ready,
        unready_since=None if is_ready else _since(ready, node),
        schedulable=not node.get("spec", {}).get("unschedulable", False) and not _shuts_out(node),
        addresses=tuple(one["address"] for one in addresses),
        kubelet=(internal, int(port)) if internal and port else None,
    )


def capacities(
    nodes: Sequence[Mapping[str, Any]],
    foreign: Mapping[str, Requested],
    *,
    cluster_uid: str,
    isolation: Callable[[NodeSeen], Isolation],
) -> list[NodeCapacity]:
    """Of those that run Pods of tenants: a control plane's nodes keep them out by a taint, and are left out."""
    return [
        _capacity(node, foreign.get(node["metadata"]["name"], Requested()), cluster_uid, isolation)
        for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
        if not _shuts_out(node)
    ]


def requested_by(pods: Iterable[Mapping[str, Any]]) -> dict[str, Requested]:
    """By node, of Pods that have one and have not ended."""
    found: dict[str, Requested] = defaultdict(Requested)
    for pod in pods:
        node = pod.get("spec", {}).get("nodeName")
        if not node or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        request = found[node]
        request.cpu_millis += _request(pod, _CPU)
        request.memory_bytes += _request(pod, _MEMORY)
        request.gpus += _request(pod, GPU_RESOURCE)
    return dict(found)


def product_of(model: str) -> str:
    """GPU feature discovery turns a model's spaces into hyphens: `NVIDIA H100 80GB HBM3` is `NVIDIA-H100-80GB-HBM3`."""
    return model.replace(" ", "-")


def _capacity(
    node: Mapping[str, Any],
    foreign: Requested,
    cluster_uid: str,
    isolation_of: Callable[[NodeSeen], Isolation],
) -> NodeCapacity:
    seen, labels = node_seen(node), node["metadata"].get("labels") or {}
    isolation = isolation_of(seen)
    allocatable = node.get("status", {}).get("allocatable", {})
    gpus, reason = _gpus(allocatable, labels, foreign)
    return NodeCapacity(
        name=seen.name,
        infrastructure=labels.get(INFRASTRUCTURE_LABEL, OPERATOR),
        architecture=seen.architecture,
        cpu_millis=max(0, millis_of(allocatable.get(_CPU, "0")) - foreign.cpu_millis),
        memory_bytes=max(0, bytes_of(allocatable.get(_MEMORY, "0")) - foreign.memory_bytes),
        gpus=gpus,
        gpu_driver=_version(labels, _DRIVER_LABELS),
        cuda_version=_version(labels, _CUDA_LABELS),
        # A node's own: machines are known again by it, and each has its name. A cluster that lost its data has other uids.
        engine_identity=f"{cluster_uid}/{seen.uid}",
        closed_because=isolation.closed_because,
        weaknesses=isolation.weaknesses,
        gpu_handover=GpuHandover.RUNTIME if gpus else GpuHandover.NONE,
        gpu_handover_reason=reason,
        # One that does not answer takes nothing, and comes back by itself.
        schedulable=seen.schedulable and seen.ready,
        draining=not seen.schedulable,
    )


def _gpus(
    allocatable: Mapping[str, str], labels: Mapping[str, str], foreign: Requested
) -> tuple[tuple[GpuDevice, ...], str | None]:
    count = int(allocatable.get(GPU_RESOURCE, 0)) - foreign.gpus
    if count <= 0:
        return (), None
    product = labels.get(PRODUCT_LABEL)
    unusable = reason = None
    if product is None:
        unusable = "nobody says which model it is: install GPU feature discovery, or label the node"
    elif labels.get(_SHARING_LABEL, "none") != "none":
        unusable = "it is shared among Pods, and a GPU belongs to one replica"
    else:
        reason = "the cluster's device plugin says which"
    memory_bytes = int(labels[_MEMORY_LABEL]) * _MEBIBYTE if labels.get(_MEMORY_LABEL, "").isdigit() else None
    model = product.replace("-", " ") if product else "unknown"
    devices = tuple(GpuDevice(f"gpu-{index}", model, memory_bytes, unusable) for index in range(count))
    return devices, reason or unusable


def _version(labels: Mapping[str, str], alternatives: Sequence[Sequence[str]]) -> str | None:
    for names in alternatives:
        if all(name in labels for name in names):
            return ".".join(labels[name] for name in names)
    return None


def _shuts_out(node: Mapping[str, Any]) -> bool:
    """A taint of the operator's that replicas do not tolerate; what Kubernetes itself sets passes, or is told otherwise."""
    return any(
        taint["effect"] in ("NoSchedule", "NoExecute")
        and taint["key"] != GPU_RESOURCE
        and not taint["key"].startswith("node.kubernetes.io/")
        for taint in node.get("spec", {}).get("taints") or ()
    )


def _request(pod: Mapping[str, Any], resource: str) -> int:
    """What the scheduler counts: all containers together, or the largest of those that run before them."""
    spec = pod["spec"]
    measure = millis_of if resource == _CPU else bytes_of

    def of(container: Mapping[str, Any]) -> int:
        resources = container.get("resources", {})
        quantity = (resources.get("requests") or {}).get(resource) or (resources.get("limits") or {}).get(
            resource, "0"
        )
        return measure(quantity)

    before = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") != "Always"]
    beside = [one for one in spec.get("initContainers") or () if one.get("restartPolicy") == "Always"]
    together = sum(of(one) for one in (*spec["containers"], *beside))
    overhead = measure((spec.get("overhead") or {}).get(resource, "0"))
    return max([together, *(of(one) for one in before)]) + overhead


def _since(condition: Mapping[str, Any] | None, node: Mapping[str, Any]) -> datetime:
    text = (condition or {}).get("lastTransitionTime") or node["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(text)

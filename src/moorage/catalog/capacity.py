"""How much fits onto the machines, and where the next replica goes. Pure.

Memory is promised once: a replica that uses all of its limit must find it there. CPU is promised several
times over (`cpu_overcommit`), because it can be shared. A GPU belongs to one replica.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from heapq import nlargest

from moorage.engines.base import MachineKey, NodeCapacity

_PLENTY = 8
"""Room for so many more. How much a machine has is what it says itself; what it was promised, we know."""


@dataclass(frozen=True)
class InstanceType:
    name: str
    gpu_model: str | None
    gpu_count: int
    vcpu_millis: int
    memory_bytes: int
    disk_bytes: int
    price_per_hour_microusd: int
    infrastructure: str
    enabled: bool = True


@dataclass(frozen=True)
class Used:
    """What the replicas on one machine hold."""

    cpu_millis: int = 0
    memory_bytes: int = 0
    gpu_device_ids: frozenset[str] = frozenset()


_NOTHING = Used()


@dataclass(frozen=True)
class Placement:
    engine: str
    node: str
    gpu_device_ids: tuple[str, ...]
    engine_identity: str | None = None

    @property
    def machine(self) -> MachineKey:
        return MachineKey(self.engine, self.node)


class Warmth(IntEnum):
    """What a container would find in its cache on a machine: minutes of a model's start."""

    COLD = 0
    SOME = 1
    """Of another version, or of a download that was interrupted."""
    WHOLE = 2
    """A replica of the version that starts came up with it."""


def keeps_caches(instance_type: InstanceType) -> bool:
    """Its machines are the operator's: what a container leaves there is for its next start."""
    return instance_type.infrastructure == "operator"


def room_for(
    instance_type: InstanceType,
    nodes: Sequence[NodeCapacity],
    used: Mapping[MachineKey, Used],
    cpu_overcommit: float,
) -> int:
    """How many more replicas of this type fit, on all machines together."""
    return sum(
        _fits(instance_type, node, used.get(node.key, Used()), cpu_overcommit)
        for node in nodes
        if node.infrastructure == instance_type.infrastructure
    )


def fits_empty(instance_type: InstanceType, node: NodeCapacity, cpu_overcommit: float) -> bool:
    """Whether the machine would hold one, if nothing else were there."""
    return (
        node.infrastructure == instance_type.infrastructure
        and _fits(instance_type, node, _NOTHING, cpu_overcommit) > 0
    )


def place(
    instance_type: InstanceType,
    nodes: Sequence[NodeCapacity],
    used: Mapping[MachineKey, Used],
    cpu_overcommit: float,
    siblings: Mapping[MachineKey, int] | None = None,
    warmth: Mapping[MachineKey, Warmth] | None = None,
    of_owners: Mapping[str, int] | None = None,
) -> Placement | None:
    """The machine with the fewest of its siblings, so that no machine takes a whole container with it; of several one whose owner has
    the fewest (`of_owners`), because an owner's machines go together; of those the one whose cache spares it most (`warmth`); of those the one with the most room left for this type, so that load spreads; of those that all have plenty the one that was promised the
    least, so that none has everything because it says that it is huge. None when nothing fits."""
    first = best_machines(instance_type, nodes, used, cpu_overcommit, siblings, warmth, of_owners, most=1)
    if not first:
        return None
    (node,) = first
    free = free_gpus(instance_type, node, used.get(node.key, Used()))
    return Placement(node.engine, node.name, tuple(free[: instance_type.gpu_count]), node.engine_identity)


def best_machines(
    instance_type: InstanceType,
    nodes: Sequence[NodeCapacity],
    used: Mapping[MachineKey, Used],
    cpu_overcommit: float,
    siblings: Mapping[MachineKey, int] | None = None,
    warmth: Mapping[MachineKey, Warmth] | None = None,
    of_owners: Mapping[str, int] | None = None,
    *,
    most: int,
) -> list[NodeCapacity]:
    """Those where it fits, the one that it would go to first, and at most so many."""
    candidates = [
        (_fits(instance_type, node, used.get(node.key, Used()), cpu_overcommit), node)
        for node in nodes
        if node.infrastructure == instance_type.infrastructure
    ]
    beside, lent_beside, found = siblings or {}, of_owners or {}, warmth or {}
    best = nlargest(
        most,
        ((fits, node) for fits, node in candidates if fits > 0),
        key=lambda one: (
            -beside.get(one[1].key, 0),
            -lent_beside.get(one[1].owner or "", 0),
            found.get(one[1].key, Warmth.COLD),
            min(one[0], _PLENTY),
            -used.get(one[1].key, Used()).memory_bytes,
            one[0],
            one[1].name,
        ),
    )
    return [node for _, node in best]


def _fits(instance_type: InstanceType, node: NodeCapacity, used: Used, cpu_overcommit: float) -> int:
    if node.closed_because is not None or not node.takes_replicas:
        return 0
    by_memory = (node.memory_bytes - used.memory_bytes) // instance_type.memory_bytes
    by_cpu = int(node.cpu_millis * cpu_overcommit - used.cpu_millis) // instance_type.vcpu_millis
    fits = min(by_memory, by_cpu)
    if instance_type.gpu_count:
        fits = min(fits, len(free_gpus(instance_type, node, used)) // instance_type.gpu_count)
    return max(fits, 0)


def free_gpus(instance_type: InstanceType, node: NodeCapacity, used: Used) -> list[str]:
    return [
        gpu.device_id
        for gpu in node.gpus
        if gpu.model == instance_type.gpu_model
        and gpu.unusable_because is None
        and gpu.device_id not in used.gpu_device_ids
    ]

"""How much fits onto the machines, and where the next replica goes. Pure.

Memory is promised once: a replica that uses all of its limit must find it there. CPU is promised several
times over (`cpu_overcommit`), because it can be shared. A GPU belongs to one replica.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from moorage.engines.base import GpuDevice, NodeCapacity


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


@dataclass(frozen=True)
class Placement:
    node: str
    gpu_device_ids: tuple[str, ...]
    engine_identity: str | None = None


def room_for(
    instance_type: InstanceType,
    nodes: Sequence[NodeCapacity],
    used: Mapping[str, Used],
    cpu_overcommit: float,
) -> int:
    """How many more replicas of this type fit, on all machines together."""
    return sum(
        _fits(instance_type, node, used.get(node.name, Used()), cpu_overcommit)
        for node in nodes
        if node.infrastructure == instance_type.infrastructure
    )


def place(
    instance_type: InstanceType,
    nodes: Sequence[NodeCapacity],
    used: Mapping[str, Used],
    cpu_overcommit: float,
) -> Placement | None:
    """The machine with the most room left for this type, so that load spreads; None when nothing fits."""
    candidates = [
        (_fits(instance_type, node, used.get(node.name, Used()), cpu_overcommit), node)
        for node in nodes
        if node.infrastructure == instance_type.infrastructure
    ]
    fitting = [(fits, node) for fits, node in candidates if fits > 0]
    if not fitting:
        return None
    _, node = max(fitting, key=lambda candidate: (candidate[0], candidate[1].name))
    free = _free_gpus(instance_type, node, used.get(node.name, Used()))
    return Placement(node.name, tuple(free[: instance_type.gpu_count]), node.engine_identity)


def why_no_room(instance_type: InstanceType, nodes: Sequence[NodeCapacity]) -> str:
    """For a person who waits: is it all taken, closed for now, broken, too small, or is there none at all?"""
    empty: dict[str, Used] = {}
    what = instance_type.gpu_model or instance_type.name
    opened = [replace(node, closed_because=None) for node in nodes]
    is_closed = all(node.closed_because is not None for node in nodes)
    if is_closed and room_for(instance_type, opened, empty, cpu_overcommit=64.0) > 0:
        return (
            f"Waits for {what}: for now nothing new is started, because the machine cannot keep containers apart. "
            "It starts by itself once the operator has fixed that."
        )
    if room_for(instance_type, nodes, empty, cpu_overcommit=64.0) > 0:
        return f"Waits for {what}: all of it is in use. It starts as soon as some is free."
    why = _why_gpus_do_not_help(instance_type, opened) or "no machine of this installation has it"
    return f"Waits for {what}: {why}. Choose another instance type, or ask the operator."


def _why_gpus_do_not_help(instance_type: InstanceType, nodes: Sequence[NodeCapacity]) -> str | None:
    """There are machines with that GPU, and yet none for this type."""
    having = [
        (node, [gpu for gpu in node.gpus if gpu.model == instance_type.gpu_model])
        for node in nodes
        if node.infrastructure == instance_type.infrastructure
    ]
    having = [(node, gpus) for node, gpus in having if gpus]
    if not having:
        return None
    node, gpus = max(having, key=lambda one: (_usable(one[1]), one[0].memory_bytes, one[0].name))
    broken = next((gpu.unusable_because for gpu in gpus if gpu.unusable_because is not None), None)
    if _usable(gpus) < instance_type.gpu_count and broken is not None:
        return f"{node.name} has it, but {broken}"
    if _usable(gpus) < instance_type.gpu_count:
        return f"it wants {instance_type.gpu_count} of them on one machine, and {node.name} has {len(gpus)}"
    wanted = f"{instance_type.memory_bytes / 2**30:.0f} GiB of memory and {instance_type.vcpu_millis / 1000:g} vCPUs"
    there = f"{node.memory_bytes / 2**30:.0f} GiB and {node.cpu_millis / 1000:g}"
    return f"{instance_type.name} wants {wanted}, and {node.name}, which has the GPU, has {there}"


def _usable(gpus: Sequence[GpuDevice]) -> int:
    return sum(gpu.unusable_because is None for gpu in gpus)


def _fits(instance_type: InstanceType, node: NodeCapacity, used: Used, cpu_overcommit: float) -> int:
    if node.closed_because is not None:
        return 0
    by_memory = (node.memory_bytes - used.memory_bytes) // instance_type.memory_bytes
    by_cpu = int(node.cpu_millis * cpu_overcommit - used.cpu_millis) // instance_type.vcpu_millis
    fits = min(by_memory, by_cpu)
    if instance_type.gpu_count:
        fits = min(fits, len(_free_gpus(instance_type, node, used)) // instance_type.gpu_count)
    return max(fits, 0)


def _free_gpus(instance_type: InstanceType, node: NodeCapacity, used: Used) -> list[str]:
    return [
        gpu.device_id
        for gpu in node.gpus
        if gpu.model == instance_type.gpu_model
        and gpu.unusable_because is None
        and gpu.device_id not in used.gpu_device_ids
    ]

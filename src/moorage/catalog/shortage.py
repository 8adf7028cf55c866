"""Why no replica of an instance type can start now: all taken, closed for now, broken, too small, or none at all. Pure.

Customers read what concerns them; names of machines and what is broken there are for the operator alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from moorage.catalog.capacity import InstanceType, Used, fits_empty, free_gpus
from moorage.engines.base import GpuDevice, MachineKey, NodeCapacity

_GIB = 2**30


@dataclass(frozen=True)
class Shortage:
    clause: str
    """For everybody: it names no machine."""
    advice: str
    """For whoever waits."""
    detail: str | None = None
    """For the operator: a sentence that names the machine."""


_ELSEWHERE = "Choose another instance type, or ask the operator."
_LATER = "It starts as soon as there is room."


def why_waiting(
    instance_type: InstanceType,
    nodes: Sequence[NodeCapacity],
    used: Mapping[MachineKey, Used],
    cpu_overcommit: float,
) -> str:
    """Of a container that waits for room."""
    short = shortage_of(instance_type, nodes, used, cpu_overcommit)
    return f"Waits for {instance_type.gpu_model or instance_type.name}: {short.clause}. {short.advice}"


def why_waiting_for_image(image: str) -> str:
    """Of a container that would have room elsewhere, where its image is not: nobody pulls a local one."""
    return (
        f"Waits for a machine that has {image}: it is a local image, and the machines that have it are full "
        "or take no new replicas now. An image from a registry could run on any machine."
    )


def why_waiting_for_trusted(instance_type: InstanceType) -> str:
    """Of a container whose first replica would have room on machines that have yet to show that they stay."""
    return (
        f"Waits for {instance_type.gpu_model or instance_type.name}: the machines that have room are new and "
        f"do not take a container's only replica. {_LATER}"
    )


def why_unavailable(
    instance_type: InstanceType,
    nodes: Sequence[NodeCapacity],
    used: Mapping[MachineKey, Used],
    cpu_overcommit: float,
    *,
    for_operator: bool = False,
) -> str:
    """Of a type in the catalogue, for which nobody waits."""
    short = shortage_of(instance_type, nodes, used, cpu_overcommit)
    sentence = f"{short.clause[0].upper()}{short.clause[1:]}."
    return f"{sentence} {short.detail}" if for_operator and short.detail is not None else sentence


def could_ever_hold(
    instance_type: InstanceType, nodes: Sequence[NodeCapacity], cpu_overcommit: float
) -> bool:
    """Whether one of the machines has what it needs when it is empty."""
    return any(fits_empty(instance_type, node, cpu_overcommit) for node in nodes)


def at_its_best(node: NodeCapacity) -> NodeCapacity:
    """As if it answered, took replicas, and nothing of it were broken: what waiting or repair could make of it."""
    opened = _opened(_taking(node))
    if all(gpu.unusable_because is None for gpu in opened.gpus):
        return opened
    return replace(opened, gpus=tuple(replace(gpu, unusable_because=None) for gpu in opened.gpus))


def shortage_of(
    instance_type: InstanceType,
    nodes: Sequence[NodeCapacity],
    used: Mapping[MachineKey, Used],
    cpu_overcommit: float,
) -> Shortage:
    def holds(node: NodeCapacity) -> bool:
        """Empty."""
        return fits_empty(instance_type, node, cpu_overcommit)

    if fitting := [node for node in nodes if holds(node)]:
        return _in_use(instance_type, fitting, used, cpu_overcommit)
    taking = [_taking(node) for node in nodes]
    if away := [node for node, as_taking in zip(nodes, taking, strict=True) if holds(as_taking)]:
        return _away(away)
    opened = [_opened(node) for node in taking]
    if closed := [node for node, as_open in zip(nodes, opened, strict=True) if holds(as_open)]:
        reason = (
            "the machine's clock is wrong"
            if closed[0].clock_is_wrong
            else "the machine cannot keep containers apart"
        )
        return Shortage(
            f"nothing new starts now, because {reason}",
            "It starts once the operator has fixed that.",
            f"{closed[0].name}: {closed[0].closed_because}.",
        )
    if instance_type.gpu_model is None:
        return Shortage("no machine of this installation is large enough for it", _ELSEWHERE)
    return _gpus_do_not_help(instance_type, opened)


def _taking(node: NodeCapacity) -> NodeCapacity:
    # Most machines do, and a copy of each of a thousand takes a while.
    if node.takes_replicas:
        return node
    return replace(node, ready=True, schedulable=True, cordoned=False, draining=False)


def _opened(node: NodeCapacity) -> NodeCapacity:
    return replace(node, closed_because=None) if node.closed_because is not None else node


def _away(nodes: Sequence[NodeCapacity]) -> Shortage:
    """Machines that hold one when they are empty, and that nothing new starts on for now."""
    silent = [node for node in nodes if not node.ready]
    if silent:
        return Shortage(
            "the machines that could hold it do not answer",
            "It starts as soon as one does.",
            f"{silent[0].name} does not answer.",
        )
    return Shortage(
        "the machines that could hold it take no new replicas now",
        "It starts as soon as one does. Or ask the operator.",
        f"{nodes[0].name} is closed for new replicas.",
    )


def _in_use(
    instance_type: InstanceType,
    nodes: Sequence[NodeCapacity],
    used: Mapping[MachineKey, Used],
    cpu_overcommit: float,
) -> Shortage:
    """On machines that hold one when they are empty: what is short now."""
    if instance_type.gpu_model is None:
        return Shortage("all of it is in use", _LATER)
    free = {node.key: len(free_gpus(instance_type, node, used.get(node.key, Used()))) for node in nodes}
    node = max(nodes, key=lambda one: (free[one.key], one.name))
    if free[node.key] == 0:
        return Shortage("all of it is in use", _LATER)
    if free[node.key] < instance_type.gpu_count:
        return Shortage(
            f"it needs {instance_type.gpu_count} GPUs on one machine, and no machine has that many free",
            _LATER,
            f"{node.name} has {free[node.key]} free.",
        )
    held = used.get(node.key, Used())
    memory_bytes = node.memory_bytes - held.memory_bytes
    cpu_millis = int(node.cpu_millis * cpu_overcommit) - held.cpu_millis
    short = [
        name
        for name, is_short in (
            ("memory", memory_bytes < instance_type.memory_bytes),
            ("vCPUs", cpu_millis < instance_type.vcpu_millis),
        )
        if is_short
    ]
    return Shortage(
        f"the GPU is free, but too little is left of the {' and the '.join(short)} of its machine",
        _LATER,
        f"{_wanted(instance_type)}, and {node.name} has {_sizes(max(memory_bytes, 0), max(cpu_millis, 0))} left.",
    )


def _gpus_do_not_help(instance_type: InstanceType, nodes: Sequence[NodeCapacity]) -> Shortage:
    """No machine holds one, not even empty."""
    having = [
        (node, [gpu for gpu in node.gpus if gpu.model == instance_type.gpu_model])
        for node in nodes
        if node.infrastructure == instance_type.infrastructure
    ]
    having = [(node, gpus) for node, gpus in having if gpus]
    if not having:
        return Shortage("no machine of this installation has it", _ELSEWHERE)
    node, gpus = max(having, key=lambda one: (_usable(one[1]), one[0].memory_bytes, one[0].name))
    broken = next((gpu.unusable_because for gpu in gpus if gpu.unusable_because is not None), None)
    if _usable(gpus) < instance_type.gpu_count and broken is not None:
        return Shortage("it cannot be used now", _ELSEWHERE, f"{node.name} has it, but {broken}.")
    if _usable(gpus) < instance_type.gpu_count:
        return Shortage(
            f"it needs {instance_type.gpu_count} GPUs on one machine, and no machine has that many",
            _ELSEWHERE,
            f"{node.name} has {len(gpus)}.",
        )
    return Shortage(
        "no machine with that GPU is large enough for it",
        _ELSEWHERE,
        f"{_wanted(instance_type)}, and {node.name}, which has the GPU, has {_sizes(node.memory_bytes, node.cpu_millis)}.",
    )


def _wanted(instance_type: InstanceType) -> str:
    return f"{instance_type.name} needs {_sizes(instance_type.memory_bytes, instance_type.vcpu_millis)}"


def _sizes(memory_bytes: int, cpu_millis: int) -> str:
    return f"{memory_bytes / _GIB:.0f} GiB of memory and {cpu_millis / 1000:g} vCPUs"


def _usable(gpus: Sequence[GpuDevice]) -> int:
    return sum(gpu.unusable_because is None for gpu in gpus)

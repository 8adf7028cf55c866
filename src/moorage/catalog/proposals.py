"""Instance types for GPUs that are there and that no type of the catalogue offers. Pure.

A type that no machine can hold is worth nothing, whatever its GPU. So the sizes of a proposal come from the machines: the
share of memory and CPU that belongs to each GPU on the smallest of them. Its price is the catalogue's for that GPU, where
it knows one; otherwise it is the operator's to set. Nothing is added without their word, and what they do not offer any more
is not proposed again.
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from itertools import count as numbers

from moorage.catalog.capacity import InstanceType, room_for
from moorage.catalog.defaults import default_catalogue
from moorage.engines.base import GpuDevice, NodeCapacity

_GIB = 2**30
_OF_MEMORY = 0.9
"""The rest is for the system, the engine and Moorage itself."""
_DISK_BYTES = 200 * _GIB
_COUNTS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Proposal:
    name: str
    gpu_model: str
    gpu_count: int
    vcpu_millis: int
    memory_bytes: int
    disk_bytes: int
    price_per_hour_microusd: int | None
    """None: nobody knows one."""
    infrastructure: str
    because: str


def propose(
    catalogue: Sequence[InstanceType], nodes: Sequence[NodeCapacity], cpu_overcommit: float
) -> list[Proposal]:
    """For each GPU that no offered type fits, or only so that some are left over, one type for each number of them."""
    proposals: list[Proposal] = []
    for infrastructure, model in sorted(
        {(node.infrastructure, gpu.model) for node in nodes for gpu in node.gpus}
    ):
        of_model = [
            one for one in catalogue if (one.gpu_model, one.infrastructure) == (model, infrastructure)
        ]
        offered = [one for one in of_model if one.enabled]
        unused = [
            node
            for node in nodes
            if node.infrastructure == infrastructure
            and _gpus(node, model)
            and not any(_uses(one, node, cpu_overcommit) for one in offered)
        ]
        if not unused:
            continue
        names, proposed = {one.name for one in catalogue}, {one.name for one in proposals}
        because = _because(model, offered, unused)
        for one in _for_model(model, infrastructure, unused, of_model, because):
            if _is_new(one, of_model) and _fits_somewhere(one, unused, cpu_overcommit):
                proposals.append(replace(one, name=_free_name(one, names, proposed)))
                proposed.add(proposals[-1].name)
    return proposals


def _is_new(proposal: Proposal, of_model: Sequence[InstanceType]) -> bool:
    """Where a type like it, or a smaller one, did not help or is not offered any more, another would not help either."""
    return not any(
        one.gpu_count == proposal.gpu_count
        and one.memory_bytes <= proposal.memory_bytes
        and one.vcpu_millis <= proposal.vcpu_millis
        for one in of_model
    )


def _fits_somewhere(proposal: Proposal, nodes: Sequence[NodeCapacity], cpu_overcommit: float) -> bool:
    sizes = {name: value for name, value in vars(proposal).items() if name != "because"}
    wanted = InstanceType(**{**sizes, "price_per_hour_microusd": proposal.price_per_hour_microusd or 1})
    return room_for(wanted, [_whole(node) for node in nodes], {}, cpu_overcommit) > 0


def _free_name(proposal: Proposal, catalogue: Collection[str], proposed: Collection[str]) -> str:
    """The catalogue's own sizes under its name do not fit: a type's sizes never change, so this is another, and smaller
    (`_is_new`). Its memory is in the name only where nothing else tells two of them apart."""
    taken = {*catalogue, *proposed}
    name, small = proposal.name, f"{proposal.name}-small"
    sized = f"{name}-{proposal.memory_bytes // _GIB}g"
    first = [name, *([small] if name in catalogue else []), sized]
    more = (f"{sized}-{number}" for number in numbers(2))
    return next(one for one in chain(first, more) if one not in taken)


def _uses(offered: InstanceType, node: NodeCapacity, cpu_overcommit: float) -> bool:
    """Whether so many fit onto this machine, empty, that fewer GPUs than one of them needs are left over."""
    fitting = room_for(offered, [_whole(node)], {}, cpu_overcommit)
    return fitting > 0 and len(_gpus(node, offered.gpu_model)) < (fitting + 1) * offered.gpu_count


def _whole(node: NodeCapacity) -> NodeCapacity:
    """As if none of its GPUs were broken, and it were not closed: a type is for longer than a fault."""
    gpus = tuple(replace(gpu, unusable_because=None) for gpu in node.gpus)
    return replace(node, gpus=gpus, closed_because=None)


def _for_model(
    model: str,
    infrastructure: str,
    having: Sequence[NodeCapacity],
    of_model: Sequence[InstanceType],
    because: str,
) -> Iterator[Proposal]:
    # By all GPUs of a machine, of whatever model: what is promised to one is not there for the others.
    memory_gib = min(int(node.memory_bytes * _OF_MEMORY / len(node.gpus)) // _GIB for node in having)
    vcpu = min(node.cpu_millis // len(node.gpus) // 1000 for node in having)
    price = _price(model, of_model)
    base = _name(_gpus(having[0], model)[0])
    for count in (one for one in _COUNTS if one <= max(len(_gpus(node, model)) for node in having)):
        yield Proposal(
            name=base if count == 1 else f"{base}-x{count}",
            gpu_model=model,
            gpu_count=count,
            vcpu_millis=max(vcpu, 1) * 1000 * count,
            memory_bytes=max(memory_gib, 1) * _GIB * count,
            disk_bytes=_DISK_BYTES,
            price_per_hour_microusd=price * count if price is not None else None,
            infrastructure=infrastructure,
            because=because,
        )


def _because(model: str, offered: Sequence[InstanceType], having: Sequence[NodeCapacity]) -> str:
    names = ", ".join(node.name for node in having)
    has, is_smaller = ("has", "is smaller") if len(having) == 1 else ("have", "are smaller")
    if not offered:
        return f"{names} {has} {model}, but no instance type offers it."
    too_large = ", ".join(one.name for one in offered)
    return f"{names} {has} {model}, but {is_smaller} than what {too_large} promises."


def _price(model: str, of_model: Sequence[InstanceType]) -> int | None:
    """Of one GPU."""
    known = [*of_model, *(one for one in default_catalogue() if one.gpu_model == model)]
    return next((one.price_per_hour_microusd // one.gpu_count for one in known), None)


def _name(gpu: GpuDevice) -> str:
    """`NVIDIA H200` of 140.4 GiB → `h200-141gb`."""
    words = re.sub(r"\b(nvidia|geforce|tesla|quadro)\b", " ", gpu.model.lower())
    slug = re.sub(r"[^a-z0-9]+", "-", words).strip("-") or "gpu"
    # One that computes in the machine's memory has no size of its own.
    if gpu.memory_bytes is None or re.search(r"\d+gb\b", slug):
        return slug[:40]
    return f"{slug[:40]}-{math.ceil(gpu.memory_bytes / _GIB)}gb"


def _gpus(node: NodeCapacity, model: str | None) -> list[GpuDevice]:
    return [gpu for gpu in node.gpus if gpu.model == model]

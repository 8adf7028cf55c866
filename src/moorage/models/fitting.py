"""On which instance types a model fits, with what is left; and of those that it does not fit on, why. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moorage.catalog.capacity import InstanceType
from moorage.catalog.gpu_models import GpuFacts
from moorage.models.memory import Memory, RequestLoad, gigabytes, longest_context_that_fits, memory_of
from moorage.models.precision import GGUF, Precision
from moorage.models.shape import Shape
from moorage.models.templates import Template

USABLE_SHARE_OF_GPU = 0.93
"""The driver keeps about 2 % to itself, and of the rest servers are told to take 95 %: the last bytes cannot be had without gaps."""
GPU_SHARE = "0.95"
"""What servers are told."""
USABLE_SHARE_OF_MACHINE = 0.9
"""Of a replica's memory, where there is no GPU."""
USABLE_SHARE_OF_DISK = 0.9
_CAPABILITIES: Mapping[str, tuple[tuple[int, int], str]] = {
    "bf16": ((8, 0), "BF16"),
    "fp8": ((8, 0), "FP8"),
    "mxfp4": ((8, 0), "MXFP4"),
    "nvfp4": ((10, 0), "NVFP4"),
    "awq": ((7, 5), "AWQ"),
    "gptq": ((7, 0), "GPTQ"),
    "int4": ((8, 0), "packed INT4"),
    "int8": ((7, 5), "INT8"),
}
"""What a GPU must be at least for kernels of that precision."""


@dataclass(frozen=True)
class Demand:
    """What is to run, whatever it runs on."""

    model: str
    weights_gpu_bytes: int
    weights_cpu_bytes: int
    """Servers keep 32-bit numbers as they are where there is no GPU."""
    download_bytes: int
    precision: Precision
    shape: Shape | None
    load: RequestLoad
    template: Template


@dataclass(frozen=True)
class Fit:
    instance_type: InstanceType
    fits: bool
    memory: Memory | None
    """On each GPU, or of the replica; None where nothing can be said."""
    total_bytes: int | None
    """Of each GPU, or of the replica."""
    usable_bytes: int | None
    reason: str | None
    """A sentence, where it does not fit."""
    longest_context: int | None
    """With which it would fit, for as many requests; None where none helps, or none is needed."""
    obstacle: str | None = None
    """Of the reason, what no other context changes, as a clause."""

    @property
    def free_bytes(self) -> int | None:
        """Negative: so much is missing."""
        if self.memory is None or self.usable_bytes is None:
            return None
        return self.usable_bytes - self.memory.total_bytes


def fit(demand: Demand, instance_type: InstanceType, gpu: GpuFacts | None) -> Fit:
    """`gpu` of a type that has one."""
    if instance_type.gpu_model is None or gpu is None:
        return _fit_without_gpu(demand, instance_type)
    gpus = instance_type.gpu_count
    obstacle = _gpu_obstacle(demand, instance_type, gpu)
    server = demand.template.server_memory
    memory = memory_of(demand.weights_gpu_bytes, demand.shape, demand.load, server, gpus=gpus)
    if gpu.memory_bytes is None:
        unknown = f"The memory of {instance_type.gpu_model} is not known here, because no machine with it has joined"
        return Fit(instance_type, False, memory, None, None, f"{unknown}.", None, unknown)
    usable = int(gpu.memory_bytes * USABLE_SHARE_OF_GPU)
    return _judged(
        demand, instance_type, memory, gpu.memory_bytes, usable, obstacle, demand.weights_gpu_bytes, gpus=gpus
    )


def smallest_that_fits(fits: Sequence[Fit]) -> Fit | None:
    """The cheapest."""
    fitting = [one for one in fits if one.fits]
    return min(
        fitting,
        key=lambda one: (one.instance_type.price_per_hour_microusd, one.instance_type.name),
        default=None,
    )


def does_not_fit(demand: Demand, wanted: Fit) -> str:
    return f"{demand.model} does not fit on {wanted.instance_type.name}: {_lowered(wanted.reason or '')}"


def refusal(demand: Demand, wanted: Fit, fits: Sequence[Fit], here: Sequence[Fit]) -> str:
    """Why it is not deployed there, and where it would be. `here` are those of `fits` that a machine has: to be told of others helps
    nobody."""
    best = smallest_that_fits(here)
    sentence = does_not_fit(demand, wanted)
    longest = wanted.longest_context if wanted in here else None
    if best is None:
        helps = (shorter_context([wanted]) if longest is not None else None) or shorter_context(here)
        return f"{sentence} {helps or _nowhere(demand, fits)}"
    shorter = f", or a context of {longest:,} tokens" if longest is not None else ""
    return f"{sentence} It fits on {best.instance_type.name}{shorter}."


def _nowhere(demand: Demand, fits: Sequence[Fit]) -> str:
    if any(
        one.memory.weights_bytes <= one.usable_bytes
        for one in fits
        if one.memory is not None and one.usable_bytes is not None
    ):
        return "No instance type here is large enough; ask for fewer requests at once or a smaller model."
    # Requests and their context are not what is too large, so fewer of them would not help.
    version = "a smaller quantisation" if demand.precision == GGUF else "a quantised version"
    return f"No instance type here is large enough for its weights. Choose {version} or a smaller model."


def shorter_context(fits: Sequence[Fit]) -> str | None:
    """The longest with which it would fit, and where, in a sentence."""
    found = max(fits, key=lambda one: one.longest_context or 0, default=None)
    if found is None or found.longest_context is None:
        return None
    return f"A context of {found.longest_context:,} tokens fits on {found.instance_type.name}."


def _fit_without_gpu(demand: Demand, instance_type: InstanceType) -> Fit:
    server = demand.template.server_memory
    memory = memory_of(demand.weights_cpu_bytes, demand.shape, demand.load, server)
    if demand.template.image_for("cpu", None) is None:
        obstacle = f"{demand.template.title} needs a GPU"
        return Fit(
            instance_type, False, memory, instance_type.memory_bytes, None, f"{obstacle}.", None, obstacle
        )
    usable = int(instance_type.memory_bytes * USABLE_SHARE_OF_MACHINE)
    return _judged(
        demand, instance_type, memory, instance_type.memory_bytes, usable, None, demand.weights_cpu_bytes
    )


def _judged(
    demand: Demand,
    instance_type: InstanceType,
    memory: Memory,
    total_bytes: int,
    usable_bytes: int,
    obstacle: str | None,
    weights_bytes: int,
    *,
    gpus: int = 1,
) -> Fit:
    short = memory.total_bytes - usable_bytes
    obstacles = [obstacle] if obstacle is not None else []
    disk = int(instance_type.disk_bytes * USABLE_SHARE_OF_DISK)
    if demand.download_bytes > disk:
        obstacles.append(
            f"its disk of {gigabytes(instance_type.disk_bytes)} is too small for the {gigabytes(demand.download_bytes)} to download"
        )
    reasons, longest = [], None
    if short > 0:
        each = "Each GPU is" if gpus > 1 else "It is"
        reasons.append(
            f"{each} {gigabytes(short)} short of the {gigabytes(memory.total_bytes)} that are needed"
        )
        if demand.shape is not None and memory.context_bytes and not obstacles:
            longest = longest_context_that_fits(
                usable_bytes,
                weights_bytes,
                demand.shape,
                demand.load,
                demand.template.server_memory,
                gpus=gpus,
            )
    reasons += obstacles
    reason = "; ".join(reasons)
    return Fit(
        instance_type,
        not reasons,
        memory,
        total_bytes,
        usable_bytes,
        f"{reason[:1].upper()}{reason[1:]}." if reasons else None,
        longest,
        "; ".join(obstacles) or None,
    )


def _gpu_obstacle(demand: Demand, instance_type: InstanceType, gpu: GpuFacts) -> str | None:
    """A clause about what no amount of memory changes."""
    template, gpus = demand.template, instance_type.gpu_count
    if template.image_for("gpu", gpu.capability) is None:
        return f"{template.title} has no image for {instance_type.gpu_model}"
    if gpu.capability is not None and demand.precision.name in _CAPABILITIES:
        least, name = _CAPABILITIES[demand.precision.name]
        if gpu.capability < least:
            return f"{instance_type.gpu_model} has no {name}"
    if gpus > 1 and not template.tensor_parallel:
        return f"{template.title} uses one GPU, and {instance_type.name} has {gpus}"
    if gpus > 1 and demand.shape is not None and demand.shape.heads % gpus:
        return f"its {demand.shape.heads} attention heads cannot be shared by {gpus} GPUs"
    return None


def _lowered(sentence: str) -> str:
    """Names of servers and GPUs stay as they are."""
    own = sentence.startswith(("It ", "Its ", "Each ", "How "))
    return f"{sentence[:1].lower()}{sentence[1:]}" if own else sentence

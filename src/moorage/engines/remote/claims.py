"""What a machine claims about itself, as far as it is passed on. Nothing is asked here.

It may lie about itself: then it gets no work, or loses it. What names something beyond it (its own name, another engine's
identity, a command that the operator is to run) is replaced or left out here.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from moorage.engines.base import (
    WRONG_CLOCK,
    DiskSpace,
    GpuDevice,
    GpuHandover,
    HostFinding,
    Image,
    NodeCapacity,
    PullProgress,
    ReplicaSpec,
    ReplicaUsage,
)
from moorage.engines.diagnosis import NetworkDiagnosis, NetworkQuestions
from moorage.engines.nvidia import GPU_VARIABLES
from moorage.engines.remote.codec import WireError
from moorage.engines.remote.machine import Machine
from moorage.engines.remote.proven import UNPROVEN
from moorage.kit.errors import EngineError, ImageError, StartError
from moorage.outbound.pulls.ticket import Ticket

MOST_CLOCK_ERROR_S = 30.0
_MOST_GPUS = 64
_MOST_FINDINGS = 40
_MOST_WORDS = 400
_DEVICE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
"""Figures are kept under names that it is a part of."""
_ARCHITECTURES = ("amd64", "arm64")

T = TypeVar("T")

_START_SENTENCES = {
    "start_command_not_found": "The start command {command} could not be run: it is not in the image, is not "
    "executable, or is built for another processor.",
    "gpu_driver_mismatch": "The machine's NVIDIA driver is too old for this image. Use an image built for an older CUDA, "
    "or restart on another machine.",
    "gpu_busy": "A process that Moorage did not start uses its GPU. Moorage tries again.",
    "gpu_lost": "Its GPU broke before it started. Moorage tries another free GPU.",
    "gpu_not_detected": "The machine has no GPU for the container. Restart on another machine.",
}
_IMAGE_SENTENCES = {
    "disk_full": "The machine has no disk space left to pull {image}. Tell the operator.",
    "image_architecture_mismatch": "The image {image} is not built for the processor of machine {machine}.",
    "image_not_found": "The image {image} is at its registry but cannot be unpacked: its layers are "
    "damaged, or are not those that its configuration names. Rebuild it and push it "
    "again.",
}


def node_of(machine: Machine, claimed: Collection[NodeCapacity], clock_error_s: float) -> NodeCapacity:
    if len(claimed) != 1:
        raise WireError(f"a machine is one machine, not {len(claimed)}")
    (node,) = claimed
    if node.architecture not in _ARCHITECTURES or node.gpu_handover not in set(GpuHandover):
        raise WireError("its processor, or how it hands its GPUs over, is not known here")
    if len(node.gpus) > _MOST_GPUS or len({gpu.device_id for gpu in node.gpus}) < len(node.gpus):
        raise WireError(f"a machine has at most {_MOST_GPUS} GPUs, each of them once")
    if not all(_DEVICE_ID.fullmatch(gpu.device_id) for gpu in node.gpus):
        raise WireError("a GPU's id is of letters and digits")
    closed_because = node.closed_because
    if abs(clock_error_s) > MOST_CLOCK_ERROR_S:
        way = "ahead of" if clock_error_s > 0 else "behind"
        closed_because = f"{WRONG_CLOCK} {abs(clock_error_s):.0f} s {way} Moorage's"
    # By name, so that whatever else a machine says of itself one day is looked at before it is believed. And in few words:
    # whoever starts something, anywhere, reads them of all machines.
    believed = NodeCapacity(
        name=machine.name,
        infrastructure=machine.infrastructure,
        architecture=node.architecture,
        cpu_millis=min(node.cpu_millis, machine.most_cpu_millis),
        memory_bytes=min(node.memory_bytes, machine.most_memory_bytes),
        gpus=tuple(_gpu_of(machine, gpu) for gpu in node.gpus),
        gpu_driver=_few(node.gpu_driver),
        cuda_version=_few(node.cuda_version),
        engine_identity=f"{machine.name}/{_few(node.engine_identity)}" if node.engine_identity else None,
        closed_because=_few(closed_because),
        weaknesses=tuple(_line(one) for one in node.weaknesses[:_MOST_FINDINGS]),
        gpu_handover=node.gpu_handover,
        gpu_handover_reason=_few(node.gpu_handover_reason),
        findings=(
            *_too_large(machine, node),
            *(_finding_of(machine, one) for one in node.findings[:_MOST_FINDINGS]),
        ),
        schedulable=machine.verified,
    )
    if machine.proven is not None and not machine.proven.covers(believed):
        return replace(believed, closed_because=believed.closed_because or UNPROVEN)
    return believed


def _too_large(machine: Machine, node: NodeCapacity) -> tuple[HostFinding, ...]:
    if node.cpu_millis <= machine.most_cpu_millis and node.memory_bytes <= machine.most_memory_bytes:
        return ()
    message = (
        f"It says that it has {node.cpu_millis / 1000:.6g} cores and {node.memory_bytes / 2**30:.6g} GiB of memory. Of a machine "
        f"that joined, {machine.most_cpu_millis / 1000:.6g} and {machine.most_memory_bytes / 2**30:.6g} GiB are believed. If it is so, "
        "set largest_machine_cores and largest_machine_memory_gib."
    )
    return (HostFinding("machine_too_large", message, "", broken=False),)


def _gpu_of(machine: Machine, gpu: GpuDevice) -> GpuDevice:
    because = _few(gpu.unusable_because)
    if because is None and gpu.memory_bytes is None and not machine.is_the_operators:
        because = "it does not say how much memory it has, and so it cannot be proven"
    return GpuDevice(gpu.device_id, _line(gpu.model), gpu.memory_bytes, because)


def _finding_of(machine: Machine, finding: HostFinding) -> HostFinding:
    # The operator would run it; of a machine of theirs, there.
    command = _line(finding.command) if machine.is_the_operators else ""
    return HostFinding(_line(finding.code), _line(finding.message), command, broken=finding.broken)


def _few(words: str | None) -> str | None:
    return _line(words) if words is not None else None


def _line(words: str) -> str:
    """One: what begins another would look like somebody else's word, or like a command."""
    return " ".join(words[:_MOST_WORDS].split())


def only_asked(asked: Collection[str], answered: Mapping[str, T]) -> dict[str, T]:
    return {key: value for key, value in answered.items() if key in asked}


def usage_by_our_clock(usage: ReplicaUsage, its_monotonic_s: float, our_monotonic_s: float) -> ReplicaUsage:
    """How long ago it was measured is all that its clock is good for."""
    if usage.cpu_time_s < 0:
        raise WireError("nothing has used less than no time")
    age_s = min(max(0.0, its_monotonic_s - usage.read_at_s), MOST_CLOCK_ERROR_S)
    return replace(usage, read_at_s=our_monotonic_s - age_s)


def disk_space_of(claimed: DiskSpace | None) -> DiskSpace | None:
    if claimed is not None and claimed.free_bytes > claimed.total_bytes:
        raise WireError("there is more room than disk")
    return claimed


def diagnosis_of(questions: NetworkQuestions, claimed: NetworkDiagnosis) -> NetworkDiagnosis:
    """It was asked for these; of what is forbidden, the engine adds its own addresses."""
    asked = {(one.address, one.port) for one in questions.outbound}
    few = len(questions.forbidden) + 8
    return replace(
        claimed,
        names=tuple(one for one in claimed.names if one.name in questions.names)[: len(questions.names)],
        outbound=tuple(one for one in claimed.outbound if (one.address, one.port) in asked)[: len(asked)],
        forbidden=claimed.forbidden[:few],
    )


def progress_of(claimed: PullProgress) -> PullProgress:
    return PullProgress(min(claimed.done_bytes, claimed.total_bytes), claimed.total_bytes)


def local_image_of(claimed: Image) -> Image:
    digest = claimed.engine_ref.removeprefix("sha256:")
    if claimed.engine_ref == digest or len(digest) != 64 or not digest.isalnum():
        raise WireError("an image is known by its digest")
    return replace(claimed, digest=None)


def pulled_image_of(ticket: Ticket, claimed: Image) -> Image:
    """What the registry said of it, which was asked by us. An image that a machine could choose would be started by name on
    others, and be somebody else's there."""
    image = ticket.image
    if claimed.engine_ref not in (image.config_document.digest, ticket.manifest_digest, ticket.digest):
        raise WireError("it has another image than the one that it was to pull")
    said = image.facts.environment
    return replace(
        claimed,
        digest=ticket.digest,
        exposed_ports=image.facts.exposed_ports,
        gpu_environment={name: said[name] for name in GPU_VARIABLES if name in said},
    )


def error_worded_here(machine: Machine, error: EngineError) -> EngineError:
    """The words of the operator's machines are passed on; to a stranger's, nobody but the operator listens."""
    if machine.is_the_operators and isinstance(error, StartError | ImageError):
        return error
    return type(error)(f"Machine {machine.name} says: {error.message[:_MOST_WORDS]}", code=error.code)


def start_error_of(machine: Machine, spec: ReplicaSpec, error: EngineError) -> EngineError:
    if not isinstance(error, StartError) or machine.is_the_operators:
        return error_worded_here(machine, error)
    command = repr(spec.command[0]) if spec.command else "of the image"
    return StartError(_START_SENTENCES[error.code].format(command=command), code=error.code)


def pull_error_of(machine: Machine, reference: str, error: EngineError) -> EngineError:
    """In our words: the machine was told no name of an image. What it says of registries is about the way to us."""
    if not isinstance(error, ImageError) or error.code not in _IMAGE_SENTENCES:
        return EngineError(f"pull {reference} on machine {machine.name}: {error.message[:_MOST_WORDS]}")
    sentence = _IMAGE_SENTENCES[error.code].format(image=reference, machine=machine.name)
    return ImageError(sentence, code=error.code)


def problem_in_words(machine: Machine, problem: str) -> str:
    return problem[:_MOST_WORDS] if machine.is_the_operators else "its machine says that it broke"

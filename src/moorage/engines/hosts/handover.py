"""How GPUs get from a machine into containers: the first way that works there, and why that one. Pure.

1. `runtime`: NVIDIA's container runtime, where the engine has it. The usual way.
2. `cdi`: the engine itself, by the machine's CDI specification.
3. `direct`: the device nodes of the assigned GPUs and the driver's own files, read-only. It needs nothing but the
   driver, so a machine with a driver and any engine is enough.

In none of them does a container get more than the GPUs it was assigned, and its profile stays the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from moorage.engines.base import GpuHandover
from moorage.engines.hosts.facts import NVIDIA_RUNTIME, EngineFacts, HostFacts
from moorage.engines.nvidia import Gpu, NvmlFailure

AUTOMATIC = "auto"


@dataclass(frozen=True)
class Handover:
    way: GpuHandover
    reason: str | None
    """A clause that tells why, or what is missing. None where there is no GPU at all."""


def choose_handover(facts: HostFacts, wanted: str = AUTOMATIC) -> Handover:
    """`wanted`: the operator's choice; then only that way is looked at."""
    if facts.nvml.machine is None or not facts.nvml.machine.gpus:
        return Handover(GpuHandover.NONE, _unseen(facts))
    if (refused := sandbox_without_gpus(facts)) is not None:
        return Handover(GpuHandover.NONE, refused)
    if versions_differ(facts):
        files = facts.files
        return Handover(
            GpuHandover.NONE,
            f"the loaded driver is {files.module_version} and its libraries are {files.library_version}",
        )
    obstacles: dict[GpuHandover, str | None] = {
        GpuHandover.RUNTIME: runtime_obstacle(facts),
        GpuHandover.CDI: _cdi_obstacle(facts),
        GpuHandover.DIRECT: direct_obstacle(facts),
    }
    if wanted != AUTOMATIC:
        way = GpuHandover(wanted)
        obstacle = obstacles[way]
        if obstacle is not None:
            return Handover(GpuHandover.NONE, f"MOORAGE_GPU_HANDOVER is {wanted}, and {obstacle}")
        return Handover(way, f"MOORAGE_GPU_HANDOVER is {wanted}")
    way = next((way for way, obstacle in obstacles.items() if obstacle is None), GpuHandover.NONE)
    before = [
        obstacle for way_before, obstacle in obstacles.items() if obstacle and _comes_before(way_before, way)
    ]
    return Handover(way, " and ".join(before) or "the engine has NVIDIA's runtime")


def cdi_names(gpus: tuple[Gpu, ...], engine: EngineFacts) -> Mapping[str, str] | None:
    """How the specification names each GPU, by its id or its index; None where one is not in it. An index counts only
    where its device node is the GPU's: since the specification was written, it may have become another GPU's."""
    names: dict[str, str] = {}
    for gpu in gpus:
        index = str(gpu.index)
        nodes = engine.cdi_nodes.get(index)
        means_another = (
            bool(nodes) and gpu.minor is not None and f"/dev/nvidia{gpu.minor}" not in (nodes or ())
        )
        candidates = (gpu.device_id,) if means_another else (gpu.device_id, index)
        name = next((name for name in candidates if name in engine.cdi_names), None)
        if name is None:
            return None
        names[gpu.device_id] = f"nvidia.com/gpu={name}"
    return names


def versions_differ(facts: HostFacts) -> bool:
    """The driver was upgraded and not loaded anew: what containers would get does not talk to what is loaded. NVML may well
    answer, to a process that loaded its library before."""
    module, library = facts.files.module_version, facts.files.library_version
    return facts.engine.is_local and module is not None and library is not None and module != library


def runtime_obstacle(facts: HostFacts) -> str | None:
    if NVIDIA_RUNTIME not in facts.engine.runtimes:
        return "the engine has no NVIDIA runtime"
    if facts.engine.is_local and not facts.has_runtime_program:
        return f"the engine's NVIDIA runtime {facts.engine.nvidia_runtime_path} is not there"
    if facts.engine.is_local and "nvidia-container-runtime-hook" not in facts.toolkit:
        return "the engine's NVIDIA runtime lacks its program nvidia-container-runtime-hook"
    return None


def direct_obstacle(facts: HostFacts) -> str | None:
    machine = facts.nvml.machine
    if not facts.engine.is_local:
        return "the engine is on another machine"
    if machine is None:
        return "no NVIDIA driver answers"
    if nodes := facts.files.missing_control_nodes:
        return f"the device node /dev/{nodes[0]} is missing"
    # One that has none hides no other: it alone is not used (`host.py`).
    if not any(facts.files.has_node(gpu.minor) for gpu in machine.gpus):
        minor = machine.gpus[0].minor if machine.gpus else None
        known = minor is not None
        return f"the device node /dev/nvidia{minor} is missing" if known else "no GPU tells its device node"
    if missing := facts.files.missing_libraries:
        return f"the driver's library {missing[0]} was not found"
    return None


def sandbox_without_gpus(facts: HostFacts) -> str | None:
    """gVisor hands a GPU through only where it was told to."""
    sandbox = facts.engine.sandbox
    runtime = facts.engine.runtimes.get(sandbox or "", {})
    is_gvisor = "runsc" in (sandbox or "") or "runsc" in str(runtime.get("path") or "")
    arguments = [str(one) for one in runtime.get("runtimeArgs") or ()]
    if is_gvisor and not any(one.startswith("--nvproxy") and not one.endswith("=false") for one in arguments):
        return f"the sandbox {sandbox} was set up without --nvproxy"
    return None


def _cdi_obstacle(facts: HostFacts) -> str | None:
    machine = facts.nvml.machine
    if not facts.engine.has_cdi:
        return "no CDI"
    if machine is None or cdi_names(machine.gpus, facts.engine) is None:
        return "its CDI specification does not name the GPUs"
    return None


_ORDER = (GpuHandover.RUNTIME, GpuHandover.CDI, GpuHandover.DIRECT, GpuHandover.NONE)


def _comes_before(one: GpuHandover, other: GpuHandover) -> bool:
    return _ORDER.index(one) < _ORDER.index(other)


def _unseen(facts: HostFacts) -> str | None:
    """A GPU is in the machine, or was, and nothing can be done with it."""
    if facts.nvml.failure is NvmlFailure.SILENT:
        return "the driver does not answer"
    if facts.nvml.failure is NvmlFailure.MISMATCH:
        return "the driver and its library are of different versions"
    if facts.nvml.failure is NvmlFailure.OTHER:
        return facts.nvml.words or "the driver fails"
    if facts.pci and facts.files.module_version is None:
        return "no NVIDIA driver is loaded"
    if facts.pci or facts.files.module_version is not None:
        return "the driver's library was not found" if facts.nvml.failure else "the driver shows none"
    return None

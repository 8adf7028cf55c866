"""How GPUs get from a machine into containers: the first way that works there, and why that one. Pure.

1. `runtime`: NVIDIA's container runtime, where the engine has it. The usual way.
2. `cdi`: the engine itself, by the machine's CDI specification.
3. `direct`: the device nodes of the assigned GPUs and the driver's own files, read-only. It needs nothing but the
   driver, so a machine with a driver and any engine is enough.

In none of them does a container get more than the GPUs it was assigned, and its profile stays the same.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from moorage.engines.base import GpuHandover
from moorage.engines.hosts.facts import NVIDIA_RUNTIME, EngineFacts, HostFacts
from moorage.engines.nvidia import Gpu, NvmlFailure

AUTOMATIC = "auto"
INSTALL_TOOLKIT = (
    "apt-get install nvidia-container-toolkit && nvidia-ctk runtime configure --runtime=docker && "
    "systemctl restart docker"
)
MAKE_NODES = "nvidia-modprobe -u"
_REINSTALL_TOOLKIT = "apt-get install --reinstall nvidia-container-toolkit && systemctl restart docker"
_ENABLE_CDI = """edit /etc/docker/daemon.json: "features": {"cdi": true}; systemctl restart docker  # Docker 25 or newer"""
_CDI_FILE = "/etc/cdi/nvidia.yaml"
_GPU_NODE = re.compile(r"nvidia\d+")


@dataclass(frozen=True)
class Obstacle:
    """Why one way does not work: a clause, and the command that helps."""

    code: str
    reason: str
    command: str


@dataclass(frozen=True)
class Handover:
    way: GpuHandover
    reason: str | None
    """A clause that tells why, or what is missing. None where there is no GPU at all."""
    obstacle: Obstacle | None = None
    """Where no way works although the driver shows GPUs: what to remove first."""


def choose_handover(facts: HostFacts, wanted: str = AUTOMATIC) -> Handover:
    """`wanted`: the operator's choice; then only that way is looked at."""
    if facts.nvml.machine is None or not facts.nvml.machine.gpus:
        return Handover(GpuHandover.NONE, _unseen(facts))
    if not facts.engine.answers:
        return Handover(GpuHandover.NONE, "no container engine answers")
    if (refused := sandbox_without_gpus(facts)) is not None:
        return Handover(GpuHandover.NONE, refused)
    if versions_differ(facts):
        files = facts.files
        return Handover(
            GpuHandover.NONE,
            f"the loaded driver is {files.module_version} and its libraries are {files.library_version}",
        )
    obstacles: dict[GpuHandover, Obstacle | None] = {
        GpuHandover.RUNTIME: runtime_obstacle(facts),
        GpuHandover.CDI: _cdi_obstacle(facts),
        GpuHandover.DIRECT: direct_obstacle(facts),
    }
    if wanted != AUTOMATIC:
        way = GpuHandover(wanted)
        because = f"MOORAGE_GPU_HANDOVER is {wanted}"
        if (obstacle := obstacles[way]) is not None:
            return Handover(GpuHandover.NONE, f"{because}, and {obstacle.reason}", _unsaid(obstacle))
        return Handover(way, because)
    way = next((way for way, obstacle in obstacles.items() if obstacle is None), GpuHandover.NONE)
    before = [
        obstacle.reason
        for way_before, obstacle in obstacles.items()
        if obstacle and _comes_before(way_before, way)
    ]
    # The direct way needs least.
    obstacle = obstacles[GpuHandover.DIRECT] if way is GpuHandover.NONE else None
    return Handover(way, " and ".join(before) or "the engine has NVIDIA's runtime", _unsaid(obstacle))


def cdi_names(gpus: tuple[Gpu, ...], engine: EngineFacts) -> Mapping[str, str] | None:
    """How the specification names each GPU, by its id or its index; None where one is not in it, or it means other GPUs."""
    if _misnamed(gpus, engine) is not None:
        return None
    names: dict[str, str] = {}
    for gpu in gpus:
        name = next((name for name in _cdi_names_of(gpu) if name in engine.cdi_names), None)
        if name is None:
            return None
        names[gpu.device_id] = f"nvidia.com/gpu={name}"
    return names


def cdi_disagreement(gpus: tuple[Gpu, ...], facts: HostFacts) -> Obstacle | None:
    """The specification was written when the GPUs had other numbers: by it a container would get another's GPU."""
    misnamed = _misnamed(gpus, facts.engine)
    if misnamed is None:
        return None
    gpu, name, nodes = misnamed
    file = facts.engine.cdi_files.get(name, _CDI_FILE)
    return Obstacle(
        "cdi_outdated",
        f"its CDI specification {file} is out of date (it says {', '.join(nodes)} for {name}, which is nvidia{gpu.minor})",
        _generate(facts, file),
    )


def _misnamed(gpus: tuple[Gpu, ...], engine: EngineFacts) -> tuple[Gpu, str, list[str]] | None:
    """A GPU, its name, and the nodes of GPUs behind that name, which are not its own. An id is checked as well as an
    index: it means one GPU for ever, but the node behind it may have become another's."""
    for gpu in gpus:
        for name in _cdi_names_of(gpu) if gpu.minor is not None else ():
            nodes = sorted(path.rpartition("/")[2] for path in engine.cdi_nodes.get(name, ()))
            of_gpus = [node for node in nodes if _GPU_NODE.fullmatch(node)]
            if of_gpus and of_gpus != [f"nvidia{gpu.minor}"]:
                return gpu, name, of_gpus
    return None


def _cdi_names_of(gpu: Gpu) -> tuple[str, str]:
    return gpu.device_id, str(gpu.index)


def _generate(facts: HostFacts, file: str) -> str:
    install = "" if "nvidia-ctk" in facts.toolkit else "apt-get install nvidia-container-toolkit && "
    return f"{install}nvidia-ctk cdi generate --output={file}"


def versions_differ(facts: HostFacts) -> bool:
    """The driver was upgraded and not loaded anew: what containers would get does not talk to what is loaded. NVML may well
    answer, to a process that loaded its library before."""
    module, library = facts.files.module_version, facts.files.library_version
    return facts.engine.is_local and module is not None and library is not None and module != library


def runtime_obstacle(facts: HostFacts) -> Obstacle | None:
    if NVIDIA_RUNTIME not in facts.engine.runtimes:
        return Obstacle("toolkit_missing", "the engine has no NVIDIA runtime", INSTALL_TOOLKIT)
    if facts.engine.is_local and not facts.has_runtime_program:
        path = facts.engine.nvidia_runtime_path
        return Obstacle(
            "toolkit_broken", f"the engine's NVIDIA runtime {path} is not there", _REINSTALL_TOOLKIT
        )
    if facts.engine.is_local and "nvidia-container-runtime-hook" not in facts.toolkit:
        lacks = "the engine's NVIDIA runtime lacks its program nvidia-container-runtime-hook"
        return Obstacle("toolkit_broken", lacks, _REINSTALL_TOOLKIT)
    return None


def direct_obstacle(facts: HostFacts) -> Obstacle | None:
    machine = facts.nvml.machine
    if not facts.engine.is_local:
        return Obstacle("toolkit_missing", "the engine is on another machine", INSTALL_TOOLKIT)
    if machine is None:
        return Obstacle("driver_missing", "no NVIDIA driver answers", "nvidia-smi")
    if (missing_node := _missing_control_node(facts)) is not None:
        return missing_node
    # One that has none hides no other: it alone is not used (`host.py`).
    if not any(facts.files.has_node(gpu.minor) for gpu in machine.gpus):
        minor = next((gpu.minor for gpu in machine.gpus if gpu.minor is not None), None)
        if minor is None:
            return Obstacle("device_node_unknown", "no GPU names its device node", INSTALL_TOOLKIT)
        return Obstacle(
            "device_nodes_missing",
            f"the device node /dev/nvidia{minor} is missing",
            f"{MAKE_NODES} -c {minor}",
        )
    if missing := facts.files.missing_libraries:
        return Obstacle(
            "library_missing",
            f"the driver's library {missing[0]} was not found",
            f"apt-get install {_package_of(missing[0])}  # of version {facts.files.module_version or machine.driver}",
        )
    return None


def _missing_control_node(facts: HostFacts) -> Obstacle | None:
    if not facts.files.missing_control_nodes:
        return None
    node = facts.files.missing_control_nodes[0]
    return Obstacle("device_nodes_missing", f"the device node /dev/{node} is missing", f"{MAKE_NODES} -c 0")


def _package_of(library: str) -> str:
    """Debian's."""
    return f"{library}1"


def _unsaid(obstacle: Obstacle | None) -> Obstacle | None:
    """Of nodes that are missing and of a broken toolkit the doctor tells anyway."""
    said = ("device_nodes_missing", "toolkit_broken", "cdi_outdated")
    return None if obstacle is None or obstacle.code in said else obstacle


def sandbox_without_gpus(facts: HostFacts) -> str | None:
    """gVisor hands a GPU through only where it was told to."""
    sandbox = facts.engine.sandbox
    runtime = facts.engine.runtimes.get(sandbox or "", {})
    is_gvisor = "runsc" in (sandbox or "") or "runsc" in str(runtime.get("path") or "")
    arguments = [str(one) for one in runtime.get("runtimeArgs") or ()]
    if is_gvisor and not any(one.startswith("--nvproxy") and not one.endswith("=false") for one in arguments):
        return f"the sandbox {sandbox} was set up without --nvproxy"
    return None


def _cdi_obstacle(facts: HostFacts) -> Obstacle | None:
    machine = facts.nvml.machine
    if not facts.engine.has_cdi:
        return Obstacle("cdi_missing", "no CDI", _ENABLE_CDI)
    if machine is not None and (outdated := cdi_disagreement(machine.gpus, facts)) is not None:
        return outdated
    if machine is None or cdi_names(machine.gpus, facts.engine) is None:
        return Obstacle(
            "cdi_missing", "its CDI specification does not name the GPUs", _generate(facts, _CDI_FILE)
        )
    # A specification makes no nodes: it only names them.
    return _missing_control_node(facts) if facts.engine.is_local else None


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
    if facts.pci and all(gpu.driver == "vfio-pci" for gpu in facts.pci):
        return "its GPUs are reserved for virtual machines (vfio-pci)"
    if facts.nvml.failure is NvmlFailure.NO_LIBRARY and facts.files.module_version is not None:
        return "the driver's library was not found"
    if facts.pci and facts.files.module_version is None and facts.nvml.machine is None:
        return "no NVIDIA driver is loaded"
    if facts.nvml.failure is NvmlFailure.NO_DRIVER and facts.files.module_version is not None:
        return "the driver is loaded, but its library does not reach it"
    if facts.pci or facts.files.module_version is not None or facts.nvml.machine is not None:
        return "the driver shows none"
    return None

"""The one default-deny security profile that every container of a user runs under.

Pure: from a `ReplicaSpec` to a `Profile`, and each engine turns that value into its own terms in one
function (`docker/create.py`). Nothing else decides what a container may do, so create, edit, restart and
scale cannot differ.

Deliberately allowed, because users' images need them: uid 0 inside the container and a writable root
filesystem. Deliberately absent: host namespaces, devices and bind mounts other than those of an assigned GPU and the container's
own cache, the engine's socket, added capabilities. There is no field for them, so no caller can ask.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from moorage.engines.base import GpuHandover, ReplicaSpec
from moorage.engines.cache_environment import cache_variables
from moorage.engines.gpu_environment import DRIVER_CAPABILITIES, ORDERS, VISIBLE_DEVICES, may_order_devices
from moorage.engines.sandboxes import is_sandbox

CPU_PERIOD_US = 100_000
PIDS_LIMIT = 4096
"""Threads count too: a model server on many cores starts a thousand, a fork bomb stops here."""
OPEN_FILES_LIMIT = 16_384
"""Below 20,000, the hard limit of machines on which nobody may raise it."""
LOG_FILE_BYTES = 64 * 1024 * 1024
LOG_FILES = 2
"""Few and large. When Docker changes files, a follower that is more than one file behind loses a whole one:
with 8 MB files a flood of 40 MB lost 68,000 of 200,000 lines. Large files only move the point where that begins."""
MASKED_PATHS = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/pagetypeinfo",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/vmallocinfo",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/kernel/debug",
    "/sys/kernel/slab",
    "/sys/kernel/tracing",
)
"""Empty inside. They tell of the machine and of its other containers (which pages are whose, what the kernel is doing,
how much power a neighbour's work takes), and uid 0 inside may read them as root outside may."""
READ_ONLY_PATHS = (
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/mtrr",
    "/proc/sys",
    "/proc/sysrq-trigger",
)
"""Switches of the machine; to uid 0 inside they would be writable."""
ALL_GPUS_PATH = "/proc/driver/nvidia"
"""Tells of every GPU of the machine, to whoever has none of them too."""
_GPU_CAPABILITIES = "compute,utility"
"""Of the driver's: what computes and what tells. Those that draw bring devices of the machine's screen."""
OUT_OF_MEMORY_SCORE_ADJUSTMENT = 500
"""When the machine itself runs out of memory, users' containers go before the database and the gateway."""


@dataclass(frozen=True)
class GpuGrant:
    """The GPUs of one container, and how they get there. Made from what the machine has (`docker/gpus.py`), never from
    what a user sent."""

    way: GpuHandover
    device_ids: tuple[str, ...]
    cdi_names: tuple[str, ...] = ()
    device_nodes: tuple[str, ...] = ()
    """Of a direct hand-over: the assigned GPUs' and the driver's own, and no other GPU's."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Of a direct hand-over: the driver's files by where they are inside, read-only."""
    library_path: str | None = None
    """What LD_LIBRARY_PATH has to be, so that those are found."""
    withheld_environment: tuple[str, ...] = ()
    """Variables of the image that could ask NVIDIA's tools for more."""
    chosen_by_engine: bool = False
    """Which devices these are the engine says itself, as a cluster's device plugin does: `device_ids` only counts them."""
    hidden_paths: tuple[str, ...] = ()
    """Of a direct hand-over: what tells of the machine's other GPUs. NVIDIA's own tools hide that by themselves."""


@dataclass(frozen=True)
class Profile:
    dropped_capabilities: tuple[str, ...]
    no_new_privileges: bool
    system_calls: Mapping[str, Any] = field(repr=False)
    """In the form that OCI engines read: what is not in the list is refused."""
    masked_paths: tuple[str, ...]
    read_only_paths: tuple[str, ...]
    memory_bytes: int
    """Also the limit of memory and swap together: no swap."""
    cpu_period_us: int
    cpu_quota_us: int
    """A quota and not a number of CPUs: Docker refuses more CPUs than the machine has, and an
    overcommitted laptop with 2 cores may well be asked for a 4-vCPU instance type."""
    cpu_shares: int
    """How a busy machine is divided: in proportion to what each replica pays for."""
    disk_bytes: int
    """Where the engine can bound it; everywhere else the controller looks how much was written."""
    pids_limit: int
    open_files_limit: int
    shared_memory_bytes: int
    log_driver: str
    log_options: Mapping[str, str]
    out_of_memory_score_adjustment: int
    runtime: str | None
    """None: the engine's own."""
    restart_policy: str
    init: bool
    gpus: GpuGrant | None
    environment: Mapping[str, str] = field(repr=False)
    """The user's and what is forced, which wins over theirs and the image's."""
    withheld_environment: tuple[str, ...]
    """Not set inside, whatever the image says."""


def profile_for(spec: ReplicaSpec, runtime: str | None = None, gpus: GpuGrant | None = None) -> Profile:
    """`gpus`: what the machine grants of its GPUs; without it, those of the spec go by way of NVIDIA's runtime."""
    if spec.gpu_device_ids and gpus is None:
        gpus = GpuGrant(GpuHandover.RUNTIME, spec.gpu_device_ids)
    assert (gpus.device_ids if gpus else ()) == spec.gpu_device_ids, "granted is what was assigned"
    forced = _gpu_environment(gpus)
    withheld = {*ORDERS, *(gpus.withheld_environment if gpus else ())} - forced.keys()
    return Profile(
        dropped_capabilities=("ALL",),
        no_new_privileges=True,
        system_calls=allowed_in_sandbox() if is_sandbox(runtime) else allowed_system_calls(),
        masked_paths=(*MASKED_PATHS, *_masked_of_gpus(gpus)),
        read_only_paths=READ_ONLY_PATHS,
        memory_bytes=spec.memory_bytes,
        cpu_period_us=CPU_PERIOD_US,
        # The kernel takes no quota below 1 ms.
        cpu_quota_us=max(1000, spec.vcpu_millis * CPU_PERIOD_US // 1000),
        cpu_shares=max(2, spec.vcpu_millis * 1024 // 1000),
        disk_bytes=spec.disk_bytes,
        pids_limit=PIDS_LIMIT,
        open_files_limit=OPEN_FILES_LIMIT,
        shared_memory_bytes=spec.memory_bytes // 2,
        # `local` keeps the bytes as they were written. `json-file` replaces bad UTF-8, and since it cuts a
        # long line every 16 KiB, also every character that happens to lie across a cut.
        log_driver="local",
        log_options={"max-size": str(LOG_FILE_BYTES), "max-file": str(LOG_FILES), "compress": "false"},
        out_of_memory_score_adjustment=OUT_OF_MEMORY_SCORE_ADJUSTMENT,
        runtime=runtime,
        restart_policy="no",
        # With an init process as pid 1 the engine would start *it* and call that a success: a wrong start
        # command would show as an exit some time later, not as the error that it is. Kubernetes has no
        # such process either. The price: a program without a SIGTERM handler uses its whole grace period.
        init=False,
        gpus=gpus,
        environment={
            **(cache_variables(spec.environment) if spec.cache is not None else {}),
            "PORT": str(spec.port),
            **{name: value for name, value in spec.environment.items() if not may_order_devices(name)},
            **forced,
        },
        withheld_environment=tuple(sorted(withheld)),
    )


@cache
def allowed_system_calls() -> Mapping[str, Any]:
    """`system_calls.json`, where each group says why it is there, without those words.

    A list of our own, so that what a container may do does not depend on the engine's version. It names no
    architecture, so it holds for the machine's own alone: a 32-bit program is ended at its first call. Those have one
    call for all sockets (socketcall), which no filter can look into."""
    text = resources.files("moorage.engines").joinpath("system_calls.json").read_text()
    profile: dict[str, Any] = json.loads(text)
    rules = [
        {name: value for name, value in rule.items() if name != "comment"} for rule in profile["syscalls"]
    ]
    return {**profile, "syscalls": rules}


@cache
def allowed_in_sandbox() -> Mapping[str, Any]:
    """A sandbox's kernel is its own. runsc of 2022 has no `clone3` and says so by itself, but where a list refuses the call it says
    that it is not permitted, whatever the list asks for. Then no C library falls back, and no program could begin a thread."""
    profile = allowed_system_calls()
    rules = [
        {"action": "SCMP_ACT_ALLOW", "names": rule["names"]} if "clone3" in rule["names"] else rule
        for rule in profile["syscalls"]
    ]
    return {**profile, "syscalls": rules}


def _masked_of_gpus(gpus: GpuGrant | None) -> tuple[str, ...]:
    if gpus is None:
        return (ALL_GPUS_PATH,)
    return gpus.hidden_paths


def _gpu_environment(gpus: GpuGrant | None) -> Mapping[str, str]:
    # Where NVIDIA's runtime is the engine's default it shows a container the GPUs that this variable names,
    # and CUDA's base images set it to "all". "void" is NVIDIA's word for none.
    if gpus is None:
        return {VISIBLE_DEVICES: "void"}
    if gpus.chosen_by_engine:
        return {DRIVER_CAPABILITIES: _GPU_CAPABILITIES}
    path = {"LD_LIBRARY_PATH": gpus.library_path} if gpus.library_path is not None else {}
    return {VISIBLE_DEVICES: ",".join(gpus.device_ids), DRIVER_CAPABILITIES: _GPU_CAPABILITIES, **path}

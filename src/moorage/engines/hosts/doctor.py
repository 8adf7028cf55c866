"""What is wrong with a machine that has, or should have, GPUs: for each fault one sentence and the command that helps. Pure.

Each check is a function from facts to findings. To add one, write it and put it into `_CHECKS`; a test makes the broken
machine (`tests/unit/test_host_doctor.py`).
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from moorage.engines.base import GpuHandover, HostFinding
from moorage.engines.hosts.facts import HostFacts
from moorage.engines.hosts.handover import (
    AUTOMATIC,
    choose_handover,
    runtime_obstacle,
    sandbox_without_gpus,
)
from moorage.engines.hosts.kernel_log import FALLEN_OFF_THE_BUS, UNUSABLE_AFTER, is_of
from moorage.engines.nvidia import Gpu, NvmlFailure, driver_mismatch

DISK_FULL_SHARE = 0.05
INSTALL_DRIVER = "apt-get install nvidia-driver && reboot"
INSTALL_TOOLKIT = (
    "apt-get install nvidia-container-toolkit && nvidia-ctk runtime configure --runtime=docker && "
    "systemctl restart docker"
)
MAKE_NODES = "nvidia-modprobe -c 0 -u"
LINK_DEVICES = "nvidia-ctk system create-dev-char-symlinks --create-all"


def diagnose(facts: HostFacts, wanted: str = AUTOMATIC, root: Path = Path("/")) -> tuple[HostFinding, ...]:
    """Empty for a machine without a GPU that is well in all else."""
    found = [finding for check in _CHECKS for finding in check(facts)]
    return (*found, *_hand_over(facts, wanted, root))


def unusable_because(gpu: Gpu, facts: HostFacts) -> str | None:
    """Why nothing may be started on this GPU; None where it is well enough."""
    if gpu.sliced:
        return "it is in MIG mode, and slices of a GPU are not offered"
    if gpu.prohibited:
        return "its compute mode is 'prohibited'"
    if gpu.rows_failed:
        return "its memory is worn out: no spare row is left"
    if gpu.fabric_pending:
        return "the fabric manager has not set up its NVLink switches"
    fatal = [xid.number for xid in facts.xids if xid.number in UNUSABLE_AFTER and is_of(xid, gpu.bus_id)]
    return f"{UNUSABLE_AFTER[fatal[-1]]} (Xid {fatal[-1]})" if fatal else None


def _driver(facts: HostFacts) -> Iterator[HostFinding]:
    if facts.files.module_version is not None or facts.nvml.machine is not None:
        return
    unclaimed = [gpu for gpu in facts.pci if gpu.driver != "nvidia"]
    if not unclaimed:
        return
    bus_id, driver = unclaimed[0].bus_id, unclaimed[0].driver
    if driver == "nouveau":
        yield _broken(
            "driver_nouveau",
            f"The GPU at {bus_id} is held by the driver nouveau, which cannot compute.",
            "echo 'blacklist nouveau' > /etc/modprobe.d/nouveau.conf && update-initramfs -u && reboot",
        )
    elif driver == "vfio-pci":
        yield _broken(
            "driver_vfio",
            f"The GPU at {bus_id} is reserved for virtual machines (vfio-pci).",
            f"driverctl unset-override {bus_id}",
        )
    elif facts.module_installed:
        yield _broken(
            "driver_not_loaded",
            f"The NVIDIA driver is installed but not loaded, so the GPU at {bus_id} cannot be used.",
            "modprobe nvidia && modprobe nvidia-uvm",
        )
    else:
        yield _broken(
            "driver_missing",
            f"There is a GPU at {bus_id}, but no NVIDIA driver for the kernel that runs.",
            INSTALL_DRIVER,
        )


def _versions(facts: HostFacts) -> Iterator[HostFinding]:
    module, library = facts.files.module_version, facts.files.library_version
    differ = module is not None and library is not None and module != library
    if differ or facts.nvml.failure is NvmlFailure.MISMATCH:
        yield _broken(
            "driver_library_mismatch",
            f"The loaded NVIDIA driver is {module or 'another version'}, but its libraries are "
            f"{library or 'not of it'}: the driver was upgraded and not loaded anew.",
            "reboot",
        )


def _libraries(facts: HostFacts) -> Iterator[HostFinding]:
    if facts.files.module_version is None:
        return
    if facts.nvml.failure is NvmlFailure.NO_LIBRARY or facts.files.folder is None:
        yield _broken(
            "library_missing",
            f"The NVIDIA driver {facts.files.module_version} is loaded, but its libraries "
            "(libcuda, libnvidia-ml) are not installed.",
            f"apt-get install libcuda1 libnvidia-ml1  # of version {facts.files.module_version}",
        )


def _nodes(facts: HostFacts) -> Iterator[HostFinding]:
    if facts.files.module_version is None:
        return
    gpus = facts.nvml.machine.gpus if facts.nvml.machine is not None else ()
    missing = facts.files.missing_nodes(tuple(gpu.minor for gpu in gpus))
    if missing:
        named = ", ".join(f"/dev/{name}" for name in missing)
        yield _broken(
            "device_nodes_missing", f"The NVIDIA driver is loaded, but {named} is missing.", MAKE_NODES
        )


def _toolkit(facts: HostFacts, root: Path) -> Iterator[HostFinding]:
    if "nvidia" in facts.engine.runtimes and (obstacle := runtime_obstacle(facts, root)) is not None:
        yield _broken(
            "toolkit_broken",
            f"NVIDIA's container toolkit is set up, but {obstacle}.",
            "apt-get install --reinstall nvidia-container-toolkit && systemctl restart docker",
        )


def _hand_over(facts: HostFacts, wanted: str, root: Path) -> Iterator[HostFinding]:
    handover = choose_handover(facts, wanted, root)
    has_gpu = facts.nvml.machine is not None and bool(facts.nvml.machine.gpus)
    yield from _toolkit(facts, root)
    if has_gpu and handover.way is GpuHandover.NONE and sandbox_without_gpus(facts) is None:
        yield _broken(
            "toolkit_missing",
            f"The GPU cannot be handed over to containers: {handover.reason}.",
            INSTALL_TOOLKIT,
        )
    if handover.way in (GpuHandover.RUNTIME, GpuHandover.DIRECT):
        yield from _vanishing(facts)


def _vanishing(facts: HostFacts) -> Iterator[HostFinding]:
    """With systemd as the keeper of control groups, each reload of it works out anew which devices a container may use,
    and finds a device by its link in /dev/char."""
    if facts.engine.cgroup_driver != "systemd":
        return
    unlinked = sorted(
        name for name, number in facts.device_numbers.items() if number not in facts.device_links
    )
    if unlinked:
        links = " && ".join(f"ln -sf ../{name} /dev/char/{facts.device_numbers[name]}" for name in unlinked)
        yield _risky(
            "gpu_vanishes_on_reload",
            f"Containers lose their GPU at the next `systemctl daemon-reload`: /dev/char has no link to "
            f"/dev/{unlinked[0]}.",
            LINK_DEVICES if "nvidia-ctk" in facts.toolkit else f"mkdir -p /dev/char && {links}",
        )


def _xids(facts: HostFacts) -> Iterator[HostFinding]:
    for xid in facts.xids:
        if xid.number == FALLEN_OFF_THE_BUS:
            continue  # `_lost` says it.
        if xid.number in UNUSABLE_AFTER:
            yield _broken(
                "xid",
                f"The GPU at {xid.bus_id} reported Xid {xid.number}: {UNUSABLE_AFTER[xid.number]}.",
                # A reset alone leaves no word in the log, so the GPU would stay unusable for us.
                "reboot  # if it comes back, exchange the GPU",
            )
        else:
            yield _risky(
                "xid_of_a_program",
                f"The GPU at {xid.bus_id} reported Xid {xid.number}, as a rule the fault of a program.",
                f"dmesg | grep 'Xid (PCI:{xid.bus_id}'",
            )


def _lost(facts: HostFacts) -> Iterator[HostFinding]:
    command = "reboot  # if it happens again: nvidia-smi -q -d TEMPERATURE,POWER, then reseat or exchange it"
    by_log = dict.fromkeys(xid.bus_id for xid in facts.xids if xid.number == FALLEN_OFF_THE_BUS)
    for bus_id in by_log:
        yield _broken(
            "gpu_lost",
            f"The GPU at {bus_id} has fallen off the bus: power, heat or the slot is at fault.",
            command,
        )
    machine = facts.nvml.machine
    if machine is not None and not by_log:
        for index in machine.lost:
            yield _broken("gpu_lost", f"GPU {index} does not answer its driver any more.", command)


def _memory_errors(facts: HostFacts) -> Iterator[HostFinding]:
    for gpu in _gpus(facts):
        if gpu.rows_failed:
            yield _broken(
                "ecc_worn_out",
                f"The memory of {_named(gpu)} is worn out: no spare row is left.",
                f"nvidia-smi -q -d ROW_REMAPPER -i {gpu.index}  # exchange the GPU",
            )
        elif gpu.rows_pending:
            yield _risky(
                "ecc_reset_pending",
                f"{_named(gpu)} found bad memory, and leaves it out only after a reset.",
                f"nvidia-smi --gpu-reset -i {gpu.index}",
            )
        elif gpu.uncorrected_errors:
            yield _risky(
                "ecc_errors",
                f"{_named(gpu)} had {gpu.uncorrected_errors} memory errors that could not be corrected.",
                f"nvidia-smi --gpu-reset -i {gpu.index}",
            )


def _modes(facts: HostFacts) -> Iterator[HostFinding]:
    for gpu in _gpus(facts):
        if gpu.prohibited:
            yield _broken(
                "compute_prohibited",
                f"{_named(gpu)} lets nobody compute: its compute mode is 'prohibited'.",
                f"nvidia-smi -c 0 -i {gpu.index}",
            )
        if gpu.sliced:
            yield _broken(
                "mig_mode",
                f"{_named(gpu)} is in MIG mode, and slices of a GPU are not offered.",
                f"nvidia-smi -mig 0 -i {gpu.index}",
            )
        if gpu.fabric_pending:
            yield _broken(
                "fabric_not_ready",
                f"{_named(gpu)} cannot compute until the fabric manager has set up its NVLink switches.",
                "systemctl enable --now nvidia-fabricmanager",
            )
    idle = [gpu for gpu in _gpus(facts) if gpu.persistent is False]
    if idle:
        yield _risky(
            "persistence_off",
            f"The driver of {_named(idle[0])} is unloaded whenever nobody uses it, so starts are slow and settings get lost.",
            "nvidia-smi -pm 1",
        )


def _silence(facts: HostFacts) -> Iterator[HostFinding]:
    if facts.nvml.failure is NvmlFailure.SILENT:
        yield _broken(
            "driver_hangs",
            "The NVIDIA driver does not answer: a GPU hangs.",
            "dmesg | grep NVRM  # then reboot",
        )
    elif facts.nvml.failure is NvmlFailure.OTHER:
        yield _broken(
            "driver_fails", f"The NVIDIA driver fails: {facts.nvml.words}.", "nvidia-smi  # then reboot"
        )


def _images(facts: HostFacts) -> Iterator[HostFinding]:
    machine = facts.nvml.machine
    if machine is None:
        return
    for name, environment in facts.images.items():
        if (wanted := driver_mismatch(machine, environment)) is not None:
            cuda = ".".join(map(str, machine.cuda))
            yield _risky(
                "driver_too_old",
                f"The image {name} asks for {wanted}; the driver {machine.driver} runs CUDA {cuda} at most.",
                f"{INSTALL_DRIVER}  # a newer driver, or an older version of the image",
            )


def _disk(facts: HostFacts) -> Iterator[HostFinding]:
    disk = facts.disk
    if disk is not None and disk.total_bytes and disk.free_bytes / disk.total_bytes < DISK_FULL_SHARE:
        yield _broken(
            "disk_full",
            f"The disk of the engine ({facts.engine.data_folder}) has {disk.free_bytes / 2**30:.1f} GiB left "
            f"({disk.free_bytes / disk.total_bytes:.0%}): images cannot be pulled.",
            "docker system prune",
        )


def _control_groups(facts: HostFacts) -> Iterator[HostFinding]:
    if facts.runs_systemd and facts.engine.cgroup_driver == "cgroupfs" and facts.engine.cgroup_version == "2":
        yield _risky(
            "cgroup_driver",
            "systemd runs this machine, but the engine keeps control groups by itself: two keepers of the same groups, "
            "and limits of containers get lost.",
            """edit /etc/docker/daemon.json: "exec-opts": ["native.cgroupdriver=systemd"]; systemctl restart docker""",
        )


def _sandbox(facts: HostFacts) -> Iterator[HostFinding]:
    sandbox = facts.engine.sandbox
    if sandbox is None:
        return
    runtime = facts.engine.runtimes.get(sandbox, {})
    arguments = " ".join(str(one) for one in runtime.get("runtimeArgs") or ())
    wants_kvm = "kata" in sandbox or "platform=kvm" in arguments or "platform kvm" in arguments
    if wants_kvm and not facts.has_kvm:
        yield _broken(
            "kvm_missing",
            f"The sandbox {sandbox} needs virtualization, but there is no /dev/kvm.",
            "modprobe kvm_intel || modprobe kvm_amd  # and switch virtualization on in the firmware",
        )
    if _gpus(facts) and (refused := sandbox_without_gpus(facts)) is not None:
        yield _broken(
            "nvproxy_missing",
            f"Containers cannot use the GPU: {refused}.",
            f"runsc install --runtime={sandbox} -- --nvproxy && systemctl restart docker",
        )


_CHECKS: tuple[Callable[[HostFacts], Iterator[HostFinding]], ...] = (
    _driver,
    _versions,
    _libraries,
    _nodes,
    _silence,
    _lost,
    _xids,
    _memory_errors,
    _modes,
    _images,
    _disk,
    _control_groups,
    _sandbox,
)


def _gpus(facts: HostFacts) -> tuple[Gpu, ...]:
    return facts.nvml.machine.gpus if facts.nvml.machine is not None else ()


def _named(gpu: Gpu) -> str:
    return f"{gpu.model} {gpu.index}"


def _broken(code: str, message: str, command: str) -> HostFinding:
    return HostFinding(code, message, command, broken=True)


def _risky(code: str, message: str, command: str) -> HostFinding:
    return HostFinding(code, message, command, broken=False)

"""What is wrong with a machine that has, or should have, GPUs: for each fault one sentence and the command that helps. Pure.

Each check is a function from facts to findings. To add one, write it and put it into `_CHECKS`; a test makes the broken
machine (`tests/unit/test_host_doctor.py`).
"""

from collections.abc import Callable, Iterator

from moorage.engines.base import GpuHandover, HostFinding
from moorage.engines.hosts.facts import NVIDIA_RUNTIME, HostFacts
from moorage.engines.hosts.findings import broken, risky
from moorage.engines.hosts.gpu_faults import gpu_faults, gpus_of
from moorage.engines.hosts.handover import (
    AUTOMATIC,
    choose_handover,
    runtime_obstacle,
    sandbox_without_gpus,
    versions_differ,
)
from moorage.engines.nvidia import NvmlFailure, driver_mismatch

DISK_FULL_SHARE = 0.05
INSTALL_DRIVER = "apt-get install nvidia-driver && reboot"
INSTALL_TOOLKIT = (
    "apt-get install nvidia-container-toolkit && nvidia-ctk runtime configure --runtime=docker && "
    "systemctl restart docker"
)
MAKE_NODES = "nvidia-modprobe -u"
LINK_DEVICES = "nvidia-ctk system create-dev-char-symlinks --create-all"


def diagnose(facts: HostFacts, wanted: str = AUTOMATIC) -> tuple[HostFinding, ...]:
    """Empty for a machine without a GPU that is well in all else."""
    found = [finding for check in _CHECKS for finding in check(facts)]
    return (*found, *_hand_over(facts, wanted))


def _driver(facts: HostFacts) -> Iterator[HostFinding]:
    if facts.files.module_version is not None or facts.nvml.machine is not None:
        return
    unclaimed = [gpu for gpu in facts.pci if gpu.driver != "nvidia"]
    if not unclaimed:
        return
    bus_id, driver = unclaimed[0].bus_id, unclaimed[0].driver
    if driver == "nouveau":
        yield broken(
            "driver_nouveau",
            f"The GPU at {bus_id} is held by the driver nouveau, which cannot compute.",
            "echo 'blacklist nouveau' > /etc/modprobe.d/nouveau.conf && update-initramfs -u && reboot",
        )
    elif driver == "vfio-pci":
        yield broken(
            "driver_vfio",
            f"The GPU at {bus_id} is reserved for virtual machines (vfio-pci).",
            f"driverctl unset-override {bus_id}",
        )
    elif facts.module_installed:
        yield broken(
            "driver_not_loaded",
            f"The NVIDIA driver is installed but not loaded, so the GPU at {bus_id} cannot be used.",
            "modprobe nvidia && modprobe nvidia-uvm",
        )
    else:
        yield broken(
            "driver_missing",
            f"There is a GPU at {bus_id}, but no NVIDIA driver for the kernel that runs.",
            INSTALL_DRIVER,
        )


def _versions(facts: HostFacts) -> Iterator[HostFinding]:
    module, library = facts.files.module_version, facts.files.library_version
    if versions_differ(facts) or facts.nvml.failure is NvmlFailure.MISMATCH:
        yield broken(
            "driver_library_mismatch",
            f"The loaded NVIDIA driver is {module or 'another version'}, but its libraries are "
            f"{library or 'not of it'}: the driver was upgraded and not loaded anew.",
            "reboot",
        )


def _libraries(facts: HostFacts) -> Iterator[HostFinding]:
    if facts.files.module_version is None:
        return
    if facts.nvml.failure is NvmlFailure.NO_LIBRARY or facts.files.folder is None:
        yield broken(
            "library_missing",
            f"The NVIDIA driver {facts.files.module_version} is loaded, but its libraries "
            "(libcuda, libnvidia-ml) are not installed.",
            f"apt-get install libcuda1 libnvidia-ml1  # of version {facts.files.module_version}",
        )


def _nodes(facts: HostFacts) -> Iterator[HostFinding]:
    if facts.files.module_version is None:
        return
    minors = _minors_without_node(facts)
    missing = [*facts.files.missing_control_nodes, *(f"nvidia{minor}" for minor in minors)]
    if missing:
        named = ", ".join(f"/dev/{name}" for name in missing)
        yield broken(
            "device_nodes_missing",
            f"The NVIDIA driver is loaded, but {named} {'is' if len(missing) == 1 else 'are'} missing.",
            # The node of the driver itself is made along with a GPU's.
            MAKE_NODES + "".join(f" -c {minor}" for minor in minors or [0]),
        )


def _minors_without_node(facts: HostFacts) -> list[int]:
    minors = (gpu.minor for gpu in gpus_of(facts))
    return [minor for minor in minors if minor is not None and not facts.files.has_node(minor)]


def _toolkit(facts: HostFacts) -> Iterator[HostFinding]:
    if NVIDIA_RUNTIME in facts.engine.runtimes and (obstacle := runtime_obstacle(facts)) is not None:
        yield broken(
            "toolkit_broken",
            f"NVIDIA's container toolkit is set up, but {obstacle}.",
            "apt-get install --reinstall nvidia-container-toolkit && systemctl restart docker",
        )


def _hand_over(facts: HostFacts, wanted: str) -> Iterator[HostFinding]:
    handover = choose_handover(facts, wanted)
    has_gpu = facts.nvml.machine is not None and bool(facts.nvml.machine.gpus)
    yield from _toolkit(facts)
    nodes_missing = bool(facts.files.missing_control_nodes or _minors_without_node(facts))
    said_already = sandbox_without_gpus(facts) is not None or versions_differ(facts) or nodes_missing
    if has_gpu and handover.way is GpuHandover.NONE and not said_already:
        yield broken(
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
        yield risky(
            "gpu_vanishes_on_reload",
            f"Containers lose their GPU at the next `systemctl daemon-reload`: /dev/char has no link to "
            f"/dev/{unlinked[0]}.",
            LINK_DEVICES if "nvidia-ctk" in facts.toolkit else f"mkdir -p /dev/char && {links}",
        )


def _silence(facts: HostFacts) -> Iterator[HostFinding]:
    if facts.nvml.failure is NvmlFailure.SILENT:
        yield broken(
            "driver_hangs",
            "The NVIDIA driver does not answer: a GPU hangs.",
            "dmesg | grep NVRM  # then reboot",
        )
    elif facts.nvml.failure is NvmlFailure.OTHER:
        yield broken(
            "driver_fails", f"The NVIDIA driver fails: {facts.nvml.words}.", "nvidia-smi  # then reboot"
        )


def _images(facts: HostFacts) -> Iterator[HostFinding]:
    machine = facts.nvml.machine
    if machine is None:
        return
    for name, environment in facts.images.items():
        if (wanted := driver_mismatch(machine, environment)) is not None:
            cuda = ".".join(map(str, machine.cuda))
            yield risky(
                "driver_too_old",
                f"The image {name} asks for {wanted}; the driver {machine.driver} runs CUDA {cuda} at most.",
                f"{INSTALL_DRIVER}  # a newer driver, or an older version of the image",
            )


def _disk(facts: HostFacts) -> Iterator[HostFinding]:
    disk = facts.disk
    if disk is not None and disk.total_bytes and disk.free_bytes / disk.total_bytes < DISK_FULL_SHARE:
        yield broken(
            "disk_full",
            f"The disk of the engine ({facts.engine.data_folder}) has {disk.free_bytes / 2**30:.1f} GiB left "
            f"({disk.free_bytes / disk.total_bytes:.0%}): images cannot be pulled.",
            # Neither stopped containers nor tagged images: those are Moorage's, or somebody's.
            "docker image prune && docker builder prune",
        )


def _control_groups(facts: HostFacts) -> Iterator[HostFinding]:
    if facts.runs_systemd and facts.engine.cgroup_driver == "cgroupfs" and facts.engine.cgroup_version == "2":
        yield risky(
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
        yield broken(
            "kvm_missing",
            f"The sandbox {sandbox} needs virtualization, but there is no /dev/kvm.",
            "modprobe kvm_intel || modprobe kvm_amd  # and switch virtualization on in the firmware",
        )
    if gpus_of(facts) and (refused := sandbox_without_gpus(facts)) is not None:
        yield broken(
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
    gpu_faults,
    _images,
    _disk,
    _control_groups,
    _sandbox,
)

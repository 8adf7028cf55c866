"""What is wrong between a machine's GPUs and their driver: it is missing, of another version, silent, or does not show them all.
Pure; part of `doctor.py`."""

from collections.abc import Iterator, Sequence

from moorage.engines.base import HostFinding
from moorage.engines.hosts.facts import HostFacts, PciGpu
from moorage.engines.hosts.findings import broken, risky
from moorage.engines.hosts.gpu_faults import gpus_of
from moorage.engines.hosts.handover import versions_differ
from moorage.engines.hosts.kernel_log import is_of, kernel_bus_id
from moorage.engines.hosts.xids import FALLEN_OFF_THE_BUS
from moorage.engines.nvidia import NvmlFailure

INSTALL_DRIVER = "apt-get install nvidia-driver && reboot"
_LOOK_INTO_THE_LOG = "dmesg | grep NVRM"


def driver_faults(facts: HostFacts) -> Iterator[HostFinding]:
    unshown = _unshown(facts)
    yield from _not_its_own(facts, [gpu for gpu in unshown if gpu.driver != "nvidia"])
    yield from _hidden(facts, [gpu for gpu in unshown if gpu.driver == "nvidia"])
    yield from _versions(facts)
    yield from _libraries(facts)
    yield from _silence(facts)


def _unshown(facts: HostFacts) -> list[PciGpu]:
    """On the bus, and not among those that the driver shows. Of those that fell off it `gpu_faults` tells."""
    shown = {kernel_bus_id(gpu.bus_id) for gpu in gpus_of(facts) if gpu.bus_id is not None}
    fallen = [xid for xid in facts.xids if xid.number == FALLEN_OFF_THE_BUS]
    return [
        gpu
        for gpu in facts.pci
        if gpu.bus_id not in shown and not any(is_of(xid, gpu.bus_id) for xid in fallen)
    ]


def _not_its_own(facts: HostFacts, gpus: Sequence[PciGpu]) -> Iterator[HostFinding]:
    """Those that another driver has, or none."""
    if nouveau := [gpu for gpu in gpus if gpu.driver == "nouveau"]:
        yield broken(
            "driver_nouveau",
            f"{_at(nouveau, 'is', 'are')} held by the driver nouveau, which cannot compute.",
            "echo 'blacklist nouveau' > /etc/modprobe.d/nouveau.conf && update-initramfs -u && reboot",
        )
    if reserved := [gpu for gpu in gpus if gpu.driver == "vfio-pci"]:
        # As a rule on purpose, so nothing is broken.
        yield risky(
            "driver_vfio",
            f"{_at(reserved, 'is', 'are')} reserved for virtual machines (vfio-pci), and not for containers.",
            " && ".join(f"driverctl unset-override {gpu.bus_id}" for gpu in reserved),
        )
    if others := [gpu for gpu in gpus if gpu.driver not in ("nouveau", "vfio-pci")]:
        yield _without_driver(facts, others)


def _without_driver(facts: HostFacts, gpus: Sequence[PciGpu]) -> HostFinding:
    if facts.files.module_version is not None or facts.nvml.machine is not None:
        return broken(
            "driver_refuses_gpu",
            f"The NVIDIA driver is loaded, but does not take {_small(_at(gpus))}.",
            f"{_LOOK_INTO_THE_LOG}  # says why: too old or too new for this driver, or a bad slot",
        )
    if facts.module_installed:
        return broken(
            "driver_not_loaded",
            f"The NVIDIA driver is installed but not loaded, so {_small(_at(gpus))} cannot be used.",
            "modprobe nvidia && modprobe nvidia-uvm",
        )
    return broken(
        "driver_missing",
        f"{_at(gpus, 'has', 'have')} no NVIDIA driver for the kernel that runs.",
        INSTALL_DRIVER,
    )


def _hidden(facts: HostFacts, gpus: Sequence[PciGpu]) -> Iterator[HostFinding]:
    """NVIDIA's driver has them, answers, and does not show them."""
    machine = facts.nvml.machine
    if machine is None:
        return
    if not machine.gpus and not machine.lost and not facts.pci:
        yield broken(
            "driver_shows_none",
            "The NVIDIA driver is loaded but shows no GPU, and none is left on the bus.",
            f"{_LOOK_INTO_THE_LOG}  # then switch the machine off and on, and reseat the GPU",
        )
    # Some of them may be those that do not answer (`gpu_faults` tells), or that do not tell where they are.
    said = len(machine.lost) + sum(gpu.bus_id is None for gpu in machine.gpus)
    if len(gpus) > said:
        which = _at(gpus, "is", "are") if said == 0 else f"{len(gpus) - said} of the machine's GPUs are"
        yield broken(
            "gpu_not_shown",
            f"{which} on the bus, but the NVIDIA driver does not show {'it' if len(gpus) - said == 1 else 'them'}.",
            f"{_LOOK_INTO_THE_LOG}  # then reboot",
        )


def _versions(facts: HostFacts) -> Iterator[HostFinding]:
    module, library = facts.files.module_version, facts.files.library_version
    if versions_differ(facts):
        yield broken(
            "driver_library_mismatch",
            f"The loaded NVIDIA driver is {module}, but its libraries are {library}: the driver was upgraded and not "
            "loaded anew.",
            "reboot",
        )
    elif facts.nvml.failure is NvmlFailure.MISMATCH and module is not None and module == library:
        yield broken(
            "driver_library_mismatch",
            f"The loaded NVIDIA driver is {module}, and so are the libraries in {facts.files.folder}, but programs find "
            "others of another version first.",
            "ldconfig -p | grep libnvidia-ml  # remove those of the other version, then: ldconfig",
        )
    elif facts.nvml.failure is NvmlFailure.MISMATCH:
        yield broken(
            "driver_library_mismatch",
            "The loaded NVIDIA driver and its libraries are of different versions: the driver was upgraded and not "
            "loaded anew.",
            "reboot",
        )


def _libraries(facts: HostFacts) -> Iterator[HostFinding]:
    version = facts.files.module_version
    if version is not None and (
        facts.nvml.failure is NvmlFailure.NO_LIBRARY or (facts.engine.is_local and facts.files.folder is None)
    ):
        yield broken(
            "library_missing",
            f"The NVIDIA driver {version} is loaded, but its libraries (libcuda, libnvidia-ml) are not installed.",
            f"apt-get install libcuda1 libnvidia-ml1  # of version {version}",
        )


def _silence(facts: HostFacts) -> Iterator[HostFinding]:
    if facts.nvml.failure is NvmlFailure.SILENT:
        yield broken(
            "driver_hangs",
            "The NVIDIA driver does not answer: a GPU hangs.",
            f"{_LOOK_INTO_THE_LOG}  # then reboot",
        )
    elif facts.nvml.failure is NvmlFailure.OTHER:
        yield broken(
            "driver_fails", f"The NVIDIA driver fails: {facts.nvml.words}.", "nvidia-smi  # then reboot"
        )


def _at(gpus: Sequence[PciGpu], one: str = "", several: str = "") -> str:
    places = ", ".join(gpu.bus_id for gpu in gpus)
    return (f"The GPU at {places} {one}" if len(gpus) == 1 else f"The GPUs at {places} {several}").rstrip()


def _small(text: str) -> str:
    return text[0].lower() + text[1:]

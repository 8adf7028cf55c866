"""What is wrong with a machine that has, or should have, GPUs: for each fault one sentence and the command that helps. Pure.

Each check is a function from facts to findings. To add one, write it and put it into `_CHECKS`; a test makes the broken
machine (`tests/unit/test_host_doctor.py`).
"""

from collections.abc import Callable, Iterator, Sequence

from moorage.engines.base import GpuHandover, HostFinding
from moorage.engines.hosts.driver_faults import INSTALL_DRIVER, driver_faults
from moorage.engines.hosts.facts import HostFacts
from moorage.engines.hosts.findings import broken, risky
from moorage.engines.hosts.gpu_faults import gpu_faults, gpus_of
from moorage.engines.hosts.handover import AUTOMATIC, Handover, choose_handover, sandbox_without_gpus
from moorage.engines.hosts.handover_faults import handover_faults
from moorage.engines.nvidia import driver_mismatch

DISK_FULL_SHARE = 0.05
_WELL_ENOUGH = (
    "disk_full",
    "cgroup_driver",
    "driver_too_old",
    "persistence_off",
    "kvm_missing",
    "ecc_errors",
)
"""None of these tells why no GPU is offered."""


def diagnose(facts: HostFacts, wanted: str = AUTOMATIC) -> tuple[HostFinding, ...]:
    """Empty for a machine without a GPU that is well in all else. A GPU that is not offered always has a finding."""
    handover = choose_handover(facts, wanted)
    found = [finding for check in _CHECKS for finding in check(facts)]
    said = {finding.code for finding in found}
    found += [finding for finding in handover_faults(facts, handover) if finding.code not in said]
    found += _unexplained(facts, handover, found)
    return tuple(found)


def _unexplained(facts: HostFacts, handover: Handover, found: Sequence[HostFinding]) -> Iterator[HostFinding]:
    explained = any(not one.code.startswith("xid") and one.code not in _WELL_ENOUGH for one in found)
    is_offered = handover.way is not GpuHandover.NONE or handover.reason is None
    if facts.engine.answers and not is_offered and not explained:
        yield broken(
            "gpus_not_offered",
            f"The GPUs of this machine are not offered: {handover.reason}.",
            "nvidia-smi; dmesg | grep NVRM  # say what the driver lacks",
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
            "systemd runs this machine, but the engine manages control groups itself: with two managers of "
            "the same groups, containers lose their limits.",
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
    driver_faults,
    gpu_faults,
    _images,
    _disk,
    _control_groups,
    _sandbox,
)

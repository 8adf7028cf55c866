"""What is wrong with a GPU itself: lost, worn out, in a mode in which it does not compute. Pure; part of `doctor.py`."""

from collections.abc import Iterator

from moorage.engines.base import HostFinding
from moorage.engines.hosts.facts import HostFacts
from moorage.engines.hosts.findings import broken, risky
from moorage.engines.hosts.kernel_log import is_of
from moorage.engines.hosts.xids import FALLEN_OFF_THE_BUS, Xid, XidKind, meaning_of, unusable_after
from moorage.engines.nvidia import Gpu


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
    fatal = [because for xid in facts.xids if is_of(xid, gpu.bus_id) and (because := unusable_after(xid))]
    return fatal[-1] if fatal else None


def gpu_faults(facts: HostFacts) -> Iterator[HostFinding]:
    yield from _lost(facts)
    yield from _xids(facts)
    yield from _memory_errors(facts)
    yield from _modes(facts)


def _lost(facts: HostFacts) -> Iterator[HostFinding]:
    command = "reboot  # if it happens again: nvidia-smi -q -d TEMPERATURE,POWER, then reseat or exchange it"
    by_log = dict.fromkeys(xid.bus_id for xid in facts.xids if xid.number == FALLEN_OFF_THE_BUS)
    for bus_id in by_log:
        yield broken(
            "gpu_lost",
            f"The GPU at {bus_id} has fallen off the bus: power, heat or the slot is at fault.",
            command,
        )
    machine = facts.nvml.machine
    if machine is not None and not by_log:
        for index in machine.lost:
            yield broken("gpu_lost", f"GPU {index} no longer answers its driver.", command)


def _xids(facts: HostFacts) -> Iterator[HostFinding]:
    for xid in facts.xids:
        if xid.number == FALLEN_OFF_THE_BUS:
            continue  # `_lost` says it.
        kind, clause = meaning_of(xid)
        code, command = _help_after(kind, xid)
        say = broken if kind is XidKind.UNUSABLE else risky
        yield say(code, f"The GPU at {xid.bus_id} reported Xid {xid.number}: {clause}.", command)


def _help_after(kind: XidKind, xid: Xid) -> tuple[str, str]:
    """The finding's code, and the command that helps."""
    # `nvidia-smi` wants the function too, which the kernel's log leaves out.
    at = xid.bus_id if "." in xid.bus_id else f"{xid.bus_id}.0"
    reset = f"nvidia-smi --gpu-reset -i {at}  # while nothing runs on it"
    match kind:
        case XidKind.UNUSABLE:
            # What is read here ends with the next load of the driver; of a reset alone it knows nothing.
            return "xid", "reboot  # if it comes back, exchange the GPU"
        case XidKind.MEMORY:
            return "xid_memory", f"{reset}; if it comes back, exchange the GPU"
        case XidKind.NVLINK:
            return (
                "xid_nvlink",
                f"nvidia-smi nvlink -s -i {at} && nvidia-smi nvlink -e -i {at}  # then reboot",
            )
        case XidKind.RESET_ADVISED:
            return "xid_reset_advised", reset
        case XidKind.PROGRAM | XidKind.OTHER:
            code = "xid_of_a_program" if kind is XidKind.PROGRAM else "xid_other"
            return code, f"dmesg | grep 'Xid (PCI:{xid.bus_id}'"


def _memory_errors(facts: HostFacts) -> Iterator[HostFinding]:
    for gpu in gpus_of(facts):
        if gpu.rows_failed:
            yield broken(
                "ecc_worn_out",
                f"The memory of {named(gpu)} is worn out: no spare row is left.",
                f"nvidia-smi -q -d ROW_REMAPPER -i {gpu.index}  # exchange the GPU",
            )
        elif gpu.rows_pending:
            yield risky(
                "ecc_reset_pending",
                f"{named(gpu)} found bad memory, which it leaves out only after a reset.",
                f"nvidia-smi --gpu-reset -i {gpu.index}",
            )
        elif gpu.uncorrected_errors:
            yield risky(
                "ecc_errors",
                f"{named(gpu)} had {gpu.uncorrected_errors} memory errors that could not be corrected.",
                f"nvidia-smi --gpu-reset -i {gpu.index}",
            )


def _modes(facts: HostFacts) -> Iterator[HostFinding]:
    for gpu in gpus_of(facts):
        if gpu.prohibited:
            yield broken(
                "compute_prohibited",
                f"{named(gpu)} allows no computation: its compute mode is 'prohibited'.",
                f"nvidia-smi -c 0 -i {gpu.index}",
            )
        if gpu.sliced:
            yield broken(
                "mig_mode",
                f"{named(gpu)} is in MIG mode, and slices of a GPU are not offered.",
                f"nvidia-smi -mig 0 -i {gpu.index}",
            )
        if gpu.fabric_pending:
            yield broken(
                "fabric_not_ready",
                f"{named(gpu)} cannot compute until the fabric manager has set up its NVLink switches.",
                "systemctl enable --now nvidia-fabricmanager",
            )
    idle = [gpu for gpu in gpus_of(facts) if gpu.persistent is False]
    if idle:
        yield risky(
            "persistence_off",
            f"The driver of {named(idle[0])} is unloaded whenever nothing uses it, so starts are slow and settings get lost.",
            "nvidia-smi -pm 1",
        )


def gpus_of(facts: HostFacts) -> tuple[Gpu, ...]:
    return facts.nvml.machine.gpus if facts.nvml.machine is not None else ()


def named(gpu: Gpu) -> str:
    return f"{gpu.model} {gpu.index}"

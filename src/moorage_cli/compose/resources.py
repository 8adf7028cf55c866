"""How much a compose service may take: GPUs, memory, CPUs. Pure."""

from typing import Any

from moorage_cli.client import Record
from moorage_cli.errors import UsageError
from moorage_cli.other_tools import meanings
from moorage_cli.other_tools.asked import Findings
from moorage_cli.other_tools.sizes import ALL_GPUS, NAMED_GPUS, Sizes, bytes_of, vcpu_millis_of


def sizes_of(service: Record, findings: Findings) -> Sizes:
    """What it may have at most counts as what it needs: here it has that, and nothing above."""
    resources = _table(_table(service, "deploy"), "resources")
    limits, reserved = _table(resources, "limits"), _table(resources, "reservations")
    if limits.get("pids"):
        findings.add("deploy.resources.limits.pids", meanings.PROCESS_LIMITS)
    if reserved.get("generic_resources"):
        findings.add("deploy.resources.reservations.generic_resources", meanings.UNKNOWN)
    memory = (service.get("mem_limit"), service.get("mem_reservation"), *_both("memory", limits, reserved))
    cpus = (service.get("cpus"), *_both("cpus", limits, reserved))
    gpus = sum(
        _gpus(one, findings) for one in (*_list(reserved, "devices"), *_gpus_of_service(service.get("gpus")))
    )
    if service.get("runtime") and not (gpus and service["runtime"] == "nvidia"):
        findings.add("runtime", meanings.RUNTIME)
    return Sizes(
        gpus=gpus,
        vcpu_millis=max([vcpu_millis_of(str(one), "cpus") for one in cpus if one], default=0),
        memory_bytes=max([bytes_of(str(one), "memory") for one in memory if one], default=0),
    )


def _both(key: str, limits: Record, reserved: Record) -> tuple[Any, Any]:
    return limits.get(key), reserved.get(key)


def _gpus_of_service(value: Any) -> list[Any]:
    """`gpus: all`, or devices as below `deploy`."""
    if value is None:
        return []
    return value if isinstance(value, list) else [{"count": value, "capabilities": ["gpu"]}]


def _gpus(device: Any, findings: Findings) -> int:
    where = "devices"
    if not isinstance(device, dict):
        raise UsageError(f"{where}: each must be a mapping, with a count and capabilities.")
    capabilities = device.get("capabilities")
    is_gpu = device.get("driver") in (None, "nvidia") and (capabilities is None or "gpu" in capabilities)
    if not is_gpu:
        findings.add(where, meanings.DEVICES)
        return 0
    if device.get("device_ids"):
        findings.note(where, NAMED_GPUS)
        return len(device["device_ids"])
    count = device.get("count", "all")
    if count in ("all", -1):
        findings.note(where, ALL_GPUS)
        return 1
    try:
        return int(count)
    except (TypeError, ValueError) as exc:
        raise UsageError(f"{where}: the count {count!r} is not a number, or all.") from exc


def _table(owner: Record, key: str) -> Record:
    value = owner.get(key) or {}
    if not isinstance(value, dict):
        raise UsageError(f"{key} must be a mapping.")
    return value


def _list(owner: Record, key: str) -> list[Any]:
    value = owner.get(key) or []
    if not isinstance(value, list):
        raise UsageError(f"{key} must be a list.")
    return value

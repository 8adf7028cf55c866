"""GPUs between Docker and a container: whether the engine can hand them over, and whether it did."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiodocker.exceptions import DockerError

from moorage.engines.base import ReplicaSpec
from moorage.engines.docker.connection import DockerConnection
from moorage.engines.nvidia import driver_mismatch, find_gpus, sees_a_gpu
from moorage.kit.errors import StartError


def engine_has_gpu_support(information: Mapping[str, Any]) -> bool:
    """By NVIDIA's runtime or by CDI, which newer engines report as discovered devices."""
    runtimes = information.get("Runtimes") or {}
    discovered = information.get("DiscoveredDevices") or []
    return "nvidia" in runtimes or any(
        str(device.get("ID", "")).startswith("nvidia.com/gpu") for device in discovered
    )


async def check_driver(connection: DockerConnection, spec: ReplicaSpec) -> None:
    """Before the start: would the machine's driver run what is in the image?"""
    machine = await find_gpus()
    if machine is None:
        return  # The engine itself refuses to hand out what is not there, and is told so in `no_gpu`.
    async with connection.call(f"look at the image of {spec.replica_id}") as docker:
        try:
            image = await docker.images.inspect(spec.image)
        except DockerError as exc:
            if exc.status == 404:
                return  # Then the create call says so.
            raise
    environment = dict(
        entry.split("=", 1) for entry in image["Config"].get("Env") or () if "=" in entry
    ) | dict(spec.environment)
    wanted = driver_mismatch(machine, environment)
    if wanted is not None:
        cuda = ".".join(map(str, machine.cuda))
        raise StartError(
            f"The image asks for {wanted}, but the machine's driver {machine.driver} runs CUDA {cuda} at most. "
            "Use an image built for an older CUDA, or restart on another machine.",
            code="gpu_driver_mismatch",
        )


def lost_gpu(inspected: Mapping[str, Any]) -> bool:
    """After the start: True when a process runs that was to have a GPU and has none."""
    pid = int(inspected["State"].get("Pid") or 0)
    if pid == 0:
        return False  # It has ended by now; what it said tells why.
    try:
        return not sees_a_gpu(Path(f"/proc/{pid}/root/dev"))
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return False  # Ended meanwhile, or on a machine that lets us look at nothing: the process will tell.


async def no_gpu(connection: DockerConnection, spec: ReplicaSpec) -> StartError:
    machine = await find_gpus()
    async with connection.call("ask for the machine's name") as docker:
        information = await docker.system.info()
    driver = f"driver {machine.driver}" if machine else "no NVIDIA driver"
    runtime = "with" if engine_has_gpu_support(information) else "without"
    return StartError(
        f"No GPU inside the container on machine {information['Name']} ({driver}, Docker "
        f"{information['ServerVersion']} {runtime} NVIDIA's runtime). Restart on another machine; the operator can "
        "mend this one by installing the NVIDIA Container Toolkit.",
        code="gpu_not_detected",
    )

"""GPUs between Docker and a container: what of the machine's is granted to it, and whether it got there."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiodocker.exceptions import DockerError

from moorage.engines.base import GpuHandover, ReplicaSpec
from moorage.engines.docker.connection import DockerConnection
from moorage.engines.gpu_environment import orders_in
from moorage.engines.hosts.driver_files import CONTROL_NODES, OPTIONAL_NODES
from moorage.engines.hosts.host import GpuHost, HostReader
from moorage.engines.hosts.kernel_log import is_of, kernel_bus_id, read_xids
from moorage.engines.hosts.xids import unusable_after
from moorage.engines.nvidia import (
    GpuMachine,
    NvmlFailure,
    count_gpus,
    driver_mismatch,
    environment_of,
    gpu_environment,
)
from moorage.engines.nvidia_usage import read_gpu_problems, read_gpu_users
from moorage.engines.profile import ALL_GPUS_PATH, GpuGrant
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError, StartError

FOLDER_INSIDE = "/usr/local/nvidia"
"""Where NVIDIA's own images look for the driver since their first version."""
LIBRARIES_INSIDE = f"{FOLDER_INSIDE}/lib64"
_FREE_WITHIN_S = 10.0
_ASK_AGAIN_S = 0.1


@dataclass
class Gpus:
    connection: DockerConnection
    host: HostReader
    clock: Clock
    users: Callable[[Collection[str]], Awaitable[frozenset[int]]] = read_gpu_users
    """Processes that compute on GPUs."""
    _machine: GpuMachine | None = None
    """As it was last described, for the addresses of its GPUs."""

    async def grant(self, spec: ReplicaSpec) -> GpuGrant:
        """Raises `StartError` where the machine's driver does not run what is in the image, or a GPU is not there."""
        information = await self._information()
        host, environment = await self.look(information), await self._environment(spec)
        if host.facts.nvml.failure is NvmlFailure.SILENT:
            # What is not known is not missing: it is tried again.
            raise EngineError("ask for the machine's GPUs: the NVIDIA driver does not answer")
        if host.machine is not None:
            _require_driver(host.machine, environment)
        broken = {one.device_id: one.unusable_because for one in host.devices}
        for device_id in spec.gpu_device_ids:
            because = broken.get(device_id, "the driver does not know it any more")
            if because is not None and host.handover.way is not GpuHandover.NONE:
                raise _broke(information, because)
            if because is not None:
                raise _not_detected(host, information, broken.get(device_id))
        return _grant(host, spec, environment)

    async def look(self, information: Mapping[str, Any]) -> GpuHost:
        """`information`: what the engine says of itself."""
        host = await self.host.read(information)
        self._machine = host.machine or self._machine
        return host

    async def examine(self) -> GpuHost:
        """With what the images here ask of the driver."""
        listed = await self.connection.listed(
            "list the images", "images/json", {}, lambda one: (str(one["Id"]), one.get("RepoTags") or ())
        )
        environments = {}
        for image_id, tags in listed:
            config = await self._config(image_id)
            names = [name for name in tags if name != "<none>:<none>"]
            environments[names[0] if names else image_id] = gpu_environment(config.get("Env"))
        return await self.host.read(await self._information(), environments)

    async def wait_until_free(self, device_ids: tuple[str, ...]) -> None:
        """Nobody computes on them: what ended a moment ago has given back their memory."""
        deadline = self.clock.monotonic() + _FREE_WITHIN_S
        while users := await self.users(device_ids):
            if self.clock.monotonic() > deadline:
                pids = ", ".join(map(str, sorted(users)))
                raise StartError(
                    f"A process that Moorage did not start uses its GPU (pid {pids}). Moorage tries again. "
                    "The operator can find the process with `nvidia-smi`.",
                    code="gpu_busy",
                )
            await self.clock.sleep(_ASK_AGAIN_S)

    async def problems(self, device_ids: Collection[str]) -> Mapping[str, str]:
        try:
            found, silence = dict(await read_gpu_problems(device_ids)), None
        except EngineError as exc:
            # A GPU that hangs makes NVML hang, and the kernel's log says which one it is.
            found, silence = {}, exc
        gpus = self._machine.gpus if self._machine is not None else ()
        addresses = {gpu.device_id: gpu.bus_id for gpu in gpus if gpu.device_id in device_ids}
        if addresses:
            for xid in await asyncio.to_thread(read_xids, self.host.root):
                for device_id, bus_id in addresses.items():
                    if (because := unusable_after(xid)) is not None and is_of(xid, bus_id):
                        found.setdefault(device_id, because)
        if silence is not None and not found:
            raise silence
        return found

    async def missing(self) -> StartError:
        """For a container that was to have a GPU and got none."""
        information = await self._information()
        return _not_detected(await self.look(information), information)

    async def _environment(self, spec: ReplicaSpec) -> dict[str, str]:
        """The image's with the user's laid over it."""
        return environment_of((await self._config(spec.image)).get("Env")) | dict(spec.environment)

    async def _config(self, image: str) -> Mapping[str, Any]:
        """Empty where the image is gone, which the create call says."""
        async with self.connection.call(f"look at the image {image}") as docker:
            try:
                return (await docker.images.inspect(image))["Config"] or {}
            except DockerError as exc:
                if exc.status == 404:
                    return {}
                raise

    async def _information(self) -> Mapping[str, Any]:
        async with self.connection.call("ask for the machine's GPUs") as docker:
            return dict(await docker.system.info())


def lost_gpu(inspected: Mapping[str, Any], count: int) -> bool:
    """After the start: True when a process runs that was to have so many GPUs and has fewer."""
    pid = int(inspected["State"].get("Pid") or 0)
    if pid == 0:
        return False  # It has ended by now; what it said tells why.
    try:
        return count_gpus(Path(f"/proc/{pid}/root/dev")) < count
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return False  # Ended meanwhile, or on a machine that lets us look at nothing: the process will tell.


def _require_driver(machine: GpuMachine, environment: Mapping[str, str]) -> None:
    wanted = driver_mismatch(machine, environment)
    if wanted is not None:
        cuda = ".".join(map(str, machine.cuda))
        raise StartError(
            f"The image asks for {wanted}, but the machine's driver {machine.driver} runs CUDA {cuda} at most. "
            "Use an image built for an older CUDA, or restart on another machine.",
            code="gpu_driver_mismatch",
        )


def _grant(host: GpuHost, spec: ReplicaSpec, environment: Mapping[str, str]) -> GpuGrant:
    device_ids, withheld = spec.gpu_device_ids, orders_in(environment)
    way = host.handover.way
    if way is GpuHandover.CDI:
        names = tuple(host.cdi[one] for one in device_ids)
        return GpuGrant(way, device_ids, cdi_names=names, withheld_environment=withheld)
    if way is not GpuHandover.DIRECT:
        return GpuGrant(way, device_ids, withheld_environment=withheld)
    assert host.machine is not None, "a device that is known was described"
    minors = {gpu.device_id: gpu.minor for gpu in host.machine.gpus}
    nodes = [f"nvidia{minors[one]}" for one in device_ids]
    nodes += [name for name in (*CONTROL_NODES, *OPTIONAL_NODES) if name in host.files.nodes]
    files = {f"{LIBRARIES_INSIDE}/{name}": source for name, source in host.files.libraries.items()}
    if host.files.smi is not None:
        files[f"{FOLDER_INSIDE}/bin/nvidia-smi"] = host.files.smi
    before = environment.get("LD_LIBRARY_PATH", "")
    folders = [folder for folder in before.split(":") if folder]
    if LIBRARIES_INSIDE not in folders:
        folders.append(LIBRARIES_INSIDE)
    return GpuGrant(
        way,
        device_ids,
        device_nodes=tuple(f"/dev/{name}" for name in nodes),
        files=files,
        library_path=":".join(folders),
        withheld_environment=withheld,
        hidden_paths=tuple(
            f"{ALL_GPUS_PATH}/gpus/{kernel_bus_id(gpu.bus_id)}"
            for gpu in host.machine.gpus
            if gpu.device_id not in device_ids and gpu.bus_id is not None
        ),
    )


def _broke(information: Mapping[str, Any], because: str) -> StartError:
    """Since the replica was placed; the machine hands over others."""
    return StartError(
        f"Its GPU on {information['Name']} broke before it started: {because}. Moorage tries another free GPU.",
        code="gpu_lost",
    )


def _not_detected(host: GpuHost, information: Mapping[str, Any], because: str | None = None) -> StartError:
    driver = f"driver {host.machine.driver}" if host.machine else "no NVIDIA driver"
    because = because or host.handover.reason or "the machine has none"
    return StartError(
        f"No GPU for the container on machine {information['Name']} ({driver}, Docker "
        f"{information['ServerVersion']}): {because}. Restart on another machine. The operator can check "
        "this one with `moor doctor host`.",
        code="gpu_not_detected",
    )

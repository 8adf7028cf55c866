"""The local engine: one Docker daemon on this machine. The contract is in `engines/base.py`."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from aiodocker.exceptions import DockerError

from moorage.engines.base import (
    DiskSpace,
    GpuUsage,
    HeldCache,
    Image,
    ImageRequest,
    ListeningSocket,
    LogChunk,
    NodeCapacity,
    ObservedReplica,
    PulledImage,
    PullProgress,
    ReplicaPhase,
    ReplicaSpec,
    ReplicaUsage,
)
from moorage.engines.diagnosis import NetworkDiagnosis, NetworkQuestions
from moorage.engines.docker import images
from moorage.engines.docker.caches import Caches, open_up
from moorage.engines.docker.connection import CALL_TIMEOUT_S, UNIX_PREFIX, DockerConnection, json_messages
from moorage.engines.docker.create import (
    HOST_ADDRESS,
    LABEL_CONTAINER,
    LABEL_INSTALLATION,
    LABEL_REPLICA,
    create_body,
    name_of,
)
from moorage.engines.docker.diagnose import diagnose
from moorage.engines.docker.disk import (
    Storage,
    WritablePlaces,
    space_of,
    storage_of,
    writable_places_of,
    written_bytes_at,
)
from moorage.engines.docker.failures import is_about_storage_options, start_failure
from moorage.engines.docker.firewall import LocalUse
from moorage.engines.docker.gpus import Gpus, lost_gpu
from moorage.engines.docker.isolation import Isolation
from moorage.engines.docker.logs import LogPosition, read_logs
from moorage.engines.docker.network import BridgeNetwork, NetworkIsolation
from moorage.engines.docker.observe import observed_replica
from moorage.engines.docker.processes import process_limit_reached_by
from moorage.engines.docker.sockets import listening_sockets_of
from moorage.engines.docker.usage import UsageFiles, usage_files_of
from moorage.engines.hosts.host import GpuHost, HostReader
from moorage.engines.nvidia_usage import read_gpu_usage
from moorage.engines.profile import GpuGrant
from moorage.engines.start_failures import is_about_gpus
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError, SettingsError
from moorage.kit.ids import ContainerId, InstallationId, ReplicaId
from moorage.outbound.pulls.proxy import PullProxy

PUBLIC_DNS = ("1.1.1.1", "8.8.8.8")
"""Resolvers that a container may reach: the machine's own is usually at a private address, which it may not."""
_START_TIMEOUT_S = 120.0
_CONCURRENT_INSPECTIONS = 16
_TRIED_BEFORE = "id already in use"
_NAME_TIMEOUT_S = 20.0
_NAME_RETRY_S = 0.05
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class DockerEngine:
    def __init__(
        self,
        docker_host: str,
        installation_id: InstallationId,
        clock: Clock,
        dns: tuple[str, ...] = PUBLIC_DNS,
        runtime: str | None = None,
        local_use: LocalUse | None = None,
        isolation_required: bool = True,
        pulls: PullProxy | None = None,
        host: HostReader | None = None,
        published_on: str = HOST_ADDRESS,
        unsandboxed_gpus: bool = False,
        mail_closed: bool = False,
    ) -> None:
        """Without `pulls` there are the images of this machine and no others. `published_on`: the address of this machine
        at which replicas are reached. `unsandboxed_gpus`: what has a GPU runs in the engine's own runtime, whatever `runtime` is.
        `mail_closed`: nobody sends mail from here."""
        self._connection = DockerConnection(docker_host)
        is_local = docker_host.startswith(UNIX_PREFIX)
        gpu_sandbox = None if unsandboxed_gpus else runtime
        self._gpus = Gpus(self._connection, host or HostReader(sandbox=gpu_sandbox, is_local=is_local), clock)
        self._installation_id = installation_id
        self._clock = clock
        self._dns = dns
        self._runtime = runtime
        self._unsandboxed_gpus = unsandboxed_gpus
        self._pulls = pulls
        self._published_on = published_on
        self._network = BridgeNetwork(installation_id)
        self._isolation = Isolation(
            self._network, clock, local_use, pulls, required=isolation_required, mail_closed=mail_closed
        )
        self._caches = Caches(self._connection, installation_id)
        self._usage_files: dict[str, UsageFiles] = {}
        self._storage: Storage | None = None
        self._writable_places: dict[str, WritablePlaces] = {}

    @property
    def network_isolation(self) -> NetworkIsolation:
        """Whether containers are kept from each other and from this machine, as `prepare` last found it."""
        return self._isolation.found

    async def knows_runtime(self) -> bool:
        return self._runtime is None or self._runtime in await self._known_runtimes()

    async def _known_runtimes(self) -> list[str]:
        async with self._connection.call("ask for the engine's runtimes") as docker:
            return sorted((await docker.system.info())["Runtimes"])

    async def check_runtime(self) -> None:
        """Raises `SettingsError` for a runtime that the engine does not know: every start would fail."""
        if self._runtime is None:
            return
        known = await self._known_runtimes()
        if self._runtime not in known:
            raise SettingsError(
                f"The Docker engine has no runtime {self._runtime!r}; it has {', '.join(known)}. "
                "Set it up in the engine's daemon.json, or choose another in MOORAGE_CONTAINER_RUNTIME."
            )

    async def prepare(self) -> None:
        await self._isolation.prepare(self._connection)

    async def ensure_image(self, request: ImageRequest, on_progress: Callable[[PullProgress], None]) -> Image:
        return await images.ensure_image(self._connection, self._pulls, request, on_progress)

    async def pulled_images(self) -> list[PulledImage]:
        return await images.pulled_images(self._connection)

    async def remove_image(self, engine_ref: str) -> bool:
        return await images.remove_image(self._connection, engine_ref)

    async def start(self, spec: ReplicaSpec) -> ObservedReplica:
        await self._require_isolation(spec)
        engine_id, adopted = await self._create_or_adopt(spec)
        failed_before = await self._require_runtime(spec, engine_id)
        if adopted is not None and adopted.phase is not ReplicaPhase.CREATED:
            return adopted  # an earlier call started it; nothing is ever started twice
        if spec.gpu_device_ids:
            await self._gpus.wait_until_free(spec.gpu_device_ids)
        if spec.cache is not None and (created := await self._inspect_own(engine_id)) is not None:
            open_up(created)
        async with self._connection.call(f"start replica {spec.replica_id}", _START_TIMEOUT_S) as docker:
            try:
                await docker.containers.container(engine_id).start()
                failure = None
            except DockerError as exc:
                # gVisor says no more than this of what it could not start before; why it could not is still so.
                failure = failed_before if failed_before and _TRIED_BEFORE in exc.message else exc.message
        inspected = await self._inspect_own(engine_id)
        if failure is not None:
            # Outside the handler, so that the engine's own words, which may quote an environment value, are
            # not chained to it.
            if is_about_gpus(failure):
                raise await self._gpus.missing()
            raise start_failure(spec, inspected, failure)
        if inspected is None:
            raise EngineError(f"start replica {spec.replica_id}: it vanished after it was started")
        if spec.gpu_device_ids and lost_gpu(inspected, len(spec.gpu_device_ids)):
            raise await self._gpus.missing()
        return observed_replica(inspected)

    async def stop(self, engine_id: str, grace_s: float) -> None:
        if await self._inspect_own(engine_id) is None:
            return
        whole_grace_s = max(0, math.ceil(grace_s))
        timeout_s = whole_grace_s + CALL_TIMEOUT_S
        async with self._connection.call(f"stop {engine_id[:12]}", timeout_s) as docker:
            try:
                await docker.containers.container(engine_id).stop(t=whole_grace_s)
            except DockerError as exc:
                if exc.status not in (304, 404):
                    raise

    async def remove(self, engine_id: str) -> None:
        inspected = await self._inspect_own(engine_id)
        if inspected is None:
            return
        async with self._connection.call(f"remove {engine_id[:12]}", _START_TIMEOUT_S) as docker:
            try:
                await docker.containers.container(engine_id).delete(force=True, v=True)
            except DockerError as exc:
                # 409: somebody else's removal is under way, which is as good.
                if exc.status not in (404, 409):
                    raise
        await self._caches.wipe(inspected)

    async def caches(self) -> list[HeldCache]:
        return await self._caches.held()

    async def trim_cache(
        self, container_id: ContainerId, replica_id: ReplicaId | None, to_bytes: int
    ) -> HeldCache | None:
        return await self._caches.trim(container_id, replica_id, to_bytes)

    async def remove_cache(self, container_id: ContainerId, replica_id: ReplicaId | None) -> bool:
        return await self._caches.remove(container_id, replica_id)

    async def inspect(self, replica_id: ReplicaId) -> ObservedReplica | None:
        inspected = await self._inspect_replica(replica_id)
        if inspected is None or not self._is_ours(inspected, replica_id):
            return None
        return observed_replica(inspected)

    async def list_replicas(self) -> list[ObservedReplica]:
        filters = {"label": [f"{LABEL_INSTALLATION}={self._installation_id}"]}
        parameters = {"all": "1", "filters": json.dumps(filters)}
        listed = await self._connection.listed(
            "list replicas", "containers/json", parameters, lambda one: str(one["Id"])
        )
        limit = asyncio.Semaphore(_CONCURRENT_INSPECTIONS)

        async def look_at(engine_id: str) -> ObservedReplica | None:
            async with limit:
                inspected = await self._inspect(engine_id)
            # Removed between the list and the look: then it is complete without it.
            return observed_replica(inspected) if inspected is not None else None

        observed = await asyncio.gather(*(look_at(engine_id) for engine_id in listed))
        return sorted((one for one in observed if one is not None), key=lambda one: one.replica_id)

    def watch(self) -> AsyncIterator[ContainerId]:
        # From the moment of this call on, not from whenever the first change is awaited.
        return self._changes_since(self._clock.now())

    async def logs(
        self, engine_id: str, since_ns: int, last: int | None = None
    ) -> AsyncIterator[Sequence[LogChunk]]:
        await self._require_own(engine_id)
        position = None
        async for chunks in read_logs(self._connection, engine_id, since_ns, follow=True, last=last):
            if position is None:
                # What came before the last so many is not wanted, nor of a stream that they have nothing of.
                position = LogPosition(since_ns if last is None else chunks[0].time_ns)
            position.advance(chunks)
            yield chunks
        # An engine that shuts down ends the stream as cleanly as a process that ends.
        inspected = await self._require_own(engine_id)
        if observed_replica(inspected).phase is ReplicaPhase.RUNNING:
            raise EngineError(f"read the log of {engine_id[:12]}: it ended, but its process runs on")
        # Docker sometimes lets a follower go before it has the very last output; that is in the log by now.
        position = position or LogPosition(since_ns)
        resume_at_ns = position.resume_at_ns()
        async for chunks in read_logs(self._connection, engine_id, resume_at_ns, follow=False):
            if new := [chunk for chunk in chunks if position.is_new(chunk)]:
                yield new

    async def listening_sockets(self, engine_id: str) -> tuple[ListeningSocket, ...]:
        inspected = await self._inspect_own(engine_id)
        pid = int(inspected["State"]["Pid"]) if inspected is not None else 0
        return listening_sockets_of(pid, engine_id) if pid > 0 else ()

    async def process_limit_reached(self, engine_id: str) -> bool:
        inspected = await self._inspect_own(engine_id)
        pid = int(inspected["State"]["Pid"]) if inspected is not None else 0
        return pid > 0 and process_limit_reached_by(pid, engine_id)

    async def diagnose_network(self, engine_id: str, questions: NetworkQuestions) -> NetworkDiagnosis:
        return await diagnose(await self._require_own(engine_id, "look at the network of"), questions)

    async def last_lines(self, engine_id: str, count: int) -> tuple[str, ...]:
        if await self._inspect_own(engine_id) is None:
            return ()
        tail = read_logs(self._connection, engine_id, 0, follow=False, last=count)
        return tuple([chunk.data.decode("utf-8", "replace") async for chunks in tail for chunk in chunks])

    async def usage(self, engine_ids: Collection[str]) -> Mapping[str, ReplicaUsage]:
        known = {one: files for one, files in self._usage_files.items() if one in engine_ids}
        for engine_id in engine_ids:
            if engine_id not in known and (files := await self._find_usage_files(engine_id)) is not None:
                known[engine_id] = files
        found = await asyncio.to_thread(self._read_usage, known)
        self._usage_files = {engine_id: known[engine_id] for engine_id in found}
        return found

    async def disk_space(self) -> DiskSpace | None:
        return space_of((await self._known_storage()).data_folder)

    async def written_bytes(self, limits: Mapping[str, int]) -> Mapping[str, int]:
        # Found once for each: an engine that is busy, with a disk that is being filled, takes its time to tell.
        known = {one: places for one, places in self._writable_places.items() if one in limits}
        for engine_id in limits:
            if engine_id not in known and (places := await self._find_writable_places(engine_id)) is not None:
                known[engine_id] = places
        written = {
            engine_id: await asyncio.to_thread(written_bytes_at, places, limits[engine_id])
            for engine_id, places in known.items()
        }
        there = {engine_id: found for engine_id, found in written.items() if found is not None}
        self._writable_places = {engine_id: known[engine_id] for engine_id in there}
        return there

    async def gpu_usage(self, device_ids: Collection[str]) -> Mapping[str, GpuUsage]:
        return await read_gpu_usage(device_ids)

    async def gpu_problems(self, device_ids: Collection[str]) -> Mapping[str, str]:
        return await self._gpus.problems(device_ids)

    async def examine_host(self) -> GpuHost:
        """This machine's GPUs and what is wrong with them, for its doctor."""
        return await self._gpus.examine()

    async def capacity(self) -> list[NodeCapacity]:
        async with self._connection.call("ask for the machine's size") as docker:
            information = await docker.system.info()
        host = await self._gpus.look(information)
        machine = host.machine
        architecture = str(information["Architecture"])
        return [
            NodeCapacity(
                name=str(information["Name"]),
                infrastructure="operator",
                architecture=_ARCHITECTURES.get(architecture, architecture),
                cpu_millis=int(information["NCPU"]) * 1000,
                memory_bytes=int(information["MemTotal"]),
                gpus=host.devices,
                gpu_driver=machine.driver if machine is not None else None,
                cuda_version=".".join(map(str, machine.cuda)) if machine is not None else None,
                engine_identity=information.get("ID") or None,
                closed_because=self._isolation.closed_because,
                weaknesses=self._isolation.weaknesses,
                gpu_handover=host.handover.way,
                gpu_handover_reason=host.handover.reason,
                findings=host.findings,
            )
        ]

    async def dismantle(self) -> None:
        """Take back what `prepare` made, once the last replica is removed; the caches too."""
        for cache in await self.caches():
            await self.remove_cache(cache.container_id, cache.replica_id)
        await self._network.dismantle(self._connection)

    async def close(self) -> None:
        await self._connection.close()

    async def _require_isolation(self, spec: ReplicaSpec) -> None:
        """Raises `EngineError` where something new would run next to others unguarded. What runs already is adopted."""
        if await self._isolation.is_closed(self._connection) and await self.inspect(spec.replica_id) is None:
            raise EngineError(
                "Nothing is started on this machine while it cannot keep containers apart: "
                f"{self._isolation.closed_because}.",
                code="not_isolated",
            )

    def _runtime_of(self, spec: ReplicaSpec) -> str | None:
        return None if self._unsandboxed_gpus and spec.gpu_device_ids else self._runtime

    async def _require_runtime(self, spec: ReplicaSpec, engine_id: str) -> str | None:
        """Raises `EngineError` for what is there, and would run outside the sandbox that it is to run in. Why an earlier start in it
        failed, if one did."""
        wanted = self._runtime_of(spec)
        inspected = await self._inspect_own(engine_id) if wanted is not None else None
        if inspected is not None and inspected["HostConfig"].get("Runtime") != wanted:
            raise EngineError(
                f"start replica {spec.replica_id}: it is not in the sandbox {wanted}", code="not_isolated"
            )
        return str(inspected["State"].get("Error") or "") or None if inspected is not None else None

    async def _create_or_adopt(self, spec: ReplicaSpec) -> tuple[str, ObservedReplica | None]:
        what = f"create replica {spec.replica_id}"
        storage = await self._known_storage()
        if (earlier := await self._inspect_by_id_as_name(spec.replica_id)) is not None:
            return str(earlier["Id"]), observed_replica(earlier)
        # What is there already is adopted as it is; the machine may have changed since.
        if spec.gpu_device_ids and (started := await self.inspect(spec.replica_id)) is not None:
            return started.engine_id, started
        grant = await self._gpus.grant(spec) if spec.gpu_device_ids else None
        image_user = await self._caches.image_user(spec.image) if spec.cache is not None else ""
        deadline = self._clock.monotonic() + _NAME_TIMEOUT_S
        while self._clock.monotonic() < deadline:
            async with self._connection.call(what) as docker:
                try:
                    body = self._create_body(
                        spec, grant, bounds_disk=storage.bounds_disk, image_user=image_user
                    )
                    created = await docker.containers.create(body, name=name_of(spec.replica_id))
                    return str(created.id), None
                except DockerError as exc:
                    if storage.bounds_disk and is_about_storage_options(exc.message):
                        self._storage = storage = replace(storage, bounds_disk=False)
                        continue
                    if exc.status != 409:
                        raise start_failure(spec, None, exc.message) from None
            inspected = await self._inspect(name_of(spec.replica_id))
            if inspected is not None:
                if not self._is_ours(inspected, spec.replica_id):
                    raise EngineError(
                        f"{what}: the name belongs to something that is not of this installation"
                    )
                return str(inspected["Id"]), observed_replica(inspected)
            # Docker takes the name some time before the object shows, and gives it back some time after.
            await self._clock.sleep(_NAME_RETRY_S)
        raise EngineError(f"{what}: the name is taken, but there is nothing of that name")

    async def _known_storage(self) -> Storage:
        if self._storage is None:
            async with self._connection.call("ask how the engine stores data") as docker:
                self._storage = storage_of(await docker.system.info())
        return self._storage

    def _create_body(
        self, spec: ReplicaSpec, grant: GpuGrant | None, *, bounds_disk: bool, image_user: str
    ) -> dict[str, Any]:
        return create_body(
            spec,
            installation_id=self._installation_id,
            network=self._network.name,
            dns=self._dns,
            runtime=self._runtime_of(spec),
            bounds_disk=bounds_disk,
            gpus=grant,
            published_on=self._published_on,
            image_user=image_user,
        )

    async def _find_usage_files(self, engine_id: str) -> UsageFiles | None:
        inspected = await self._inspect_own(engine_id)
        pid = int(inspected["State"]["Pid"]) if inspected is not None else 0
        return usage_files_of(pid, engine_id) if pid > 0 else None

    async def _find_writable_places(self, engine_id: str) -> WritablePlaces | None:
        inspected = await self._inspect_own(engine_id)
        return writable_places_of(inspected) if inspected is not None else None

    def _read_usage(self, known: Mapping[str, UsageFiles]) -> dict[str, ReplicaUsage]:
        read = {engine_id: files.read(self._clock) for engine_id, files in known.items()}
        return {engine_id: usage for engine_id, usage in read.items() if usage is not None}

    async def _inspect_replica(self, replica_id: ReplicaId) -> Mapping[str, Any] | None:
        return await self._inspect(name_of(replica_id)) or await self._inspect_by_id_as_name(replica_id)

    async def _inspect_by_id_as_name(self, replica_id: ReplicaId) -> Mapping[str, Any] | None:
        """Replicas that an earlier version started bear their id as a name."""
        inspected = await self._inspect(replica_id)
        return inspected if inspected is not None and self._is_ours(inspected, replica_id) else None

    async def _inspect(self, name_or_id: str) -> Mapping[str, Any] | None:
        async with self._connection.call(f"look at {name_or_id}") as docker:
            try:
                return dict(await docker.containers.container(name_or_id).show())
            except DockerError as exc:
                if exc.status == 404:
                    return None
                raise

    async def _inspect_own(self, engine_id: str) -> Mapping[str, Any] | None:
        """None for what is gone, for another installation's, and for a name in place of an id."""
        inspected = await self._inspect(engine_id)
        if inspected is None or inspected["Id"] != engine_id or not self._is_ours(inspected):
            return None
        return inspected

    async def _require_own(self, engine_id: str, what: str = "read the log of") -> Mapping[str, Any]:
        inspected = await self._inspect_own(engine_id)
        if inspected is None:
            raise EngineError(f"{what} {engine_id[:12]}: there is no such replica", code="replica_gone")
        return inspected

    def _is_ours(self, inspected: Mapping[str, Any], replica_id: ReplicaId | None = None) -> bool:
        labels = inspected["Config"].get("Labels") or {}
        return labels.get(LABEL_INSTALLATION) == self._installation_id and (
            replica_id is None or labels.get(LABEL_REPLICA) == replica_id
        )

    async def _changes_since(self, since: datetime) -> AsyncIterator[ContainerId]:
        filters = {
            "type": ["container"],
            # Not "start": whoever started it knows.
            "event": ["die", "oom", "destroy"],
            "label": [f"{LABEL_INSTALLATION}={self._installation_id}"],
        }
        parameters = {"filters": json.dumps(filters), "since": f"{since.timestamp():.6f}"}
        try:
            async with self._connection.stream(
                "watch replicas", "GET", "events", parameters=parameters
            ) as content:
                async for event in json_messages(content):
                    yield ContainerId(event["Actor"]["Attributes"][LABEL_CONTAINER])
        except DockerError as exc:
            raise EngineError(f"watch replicas: {exc.message}") from exc
        raise EngineError("watch replicas: the Docker engine ended the connection")

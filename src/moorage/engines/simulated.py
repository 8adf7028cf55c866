"""An engine without containers: in memory, deterministic, on a given clock.

`watch` and `logs` sleep on that clock, never on the event loop's, so nothing happens between two moments
that a test chooses.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from moorage.engines.base import (
    IMAGE_GONE,
    DiskSpace,
    Failure,
    GpuHandover,
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
from moorage.engines.diagnosis import Attempt, NameAnswer, NetworkDiagnosis, NetworkQuestions, Outcome
from moorage.engines.simulated_machine import (
    SimulatedCache,
    SimulatedImage,
    SimulatedMachine,
    SimulatedOutput,
    SimulatedReplica,
    due_output,
    engine_ref,
    next_moment,
)
from moorage.kit.errors import EngineError, ImageError, StartError
from moorage.kit.ids import ContainerId, InstallationId, ReplicaId

__all__ = ["SimulatedEngine", "SimulatedImage", "SimulatedMachine", "SimulatedOutput"]

EXIT_CODE_TERMINATED = 143
EXIT_CODE_KILLED = 137
RESOLVER = "192.0.2.53"


class SimulatedEngine:
    def __init__(self, machine: SimulatedMachine, installation_id: InstallationId) -> None:
        self._machine = machine
        self._installation_id = installation_id
        self._clock = machine.clock

    async def prepare(self) -> None:
        """There is no network to guard."""
        await self._reach()

    async def ensure_image(self, request: ImageRequest, on_progress: Callable[[PullProgress], None]) -> Image:
        await self._reach()
        image = self._machine.images.get(request.reference)
        if image is None or request.local != request.reference.startswith("local/"):
            raise ImageError(f"The image {request.reference} does not exist.", code="image_not_found")
        if image.credentials is not None and image.credentials != request.credentials:
            raise ImageError(f"The registry refused {request.reference}.", code="registry_auth_failed")
        if image.architecture != self._machine.architecture:
            raise ImageError(
                f"The image {request.reference} is not built for this machine's processor.",
                code="image_architecture_mismatch",
            )
        if not request.local:
            on_progress(PullProgress(0, image.size_bytes))
            await self._clock.sleep(image.pull_s)
            on_progress(PullProgress(image.size_bytes, image.size_bytes))
        reference = engine_ref(request.reference)
        self._machine.pruned.discard(reference)
        if not request.local:
            self._machine.pulled.add(reference)
        return Image(
            engine_ref=reference,
            digest=None if request.local else request.reference.partition("@")[2] or reference,
            size_bytes=image.size_bytes,
            architecture=image.architecture,
            exposed_ports=image.exposed_ports,
            gpu_environment=image.gpu_environment,
        )

    async def pulled_images(self) -> list[PulledImage]:
        await self._reach()
        return [
            PulledImage(engine_ref(name), image.size_bytes)
            for name, image in self._machine.images.items()
            if engine_ref(name) in self._machine.pulled
        ]

    async def remove_image(self, engine_ref: str) -> bool:
        await self._reach()
        if any(replica.spec.image == engine_ref for replica in self._machine.replicas.values()):
            return False
        self._machine.pulled.discard(engine_ref)
        self._machine.pruned.add(engine_ref)
        return True

    async def start(self, spec: ReplicaSpec) -> ObservedReplica:
        await self._reach()
        now = self._clock.now()
        if spec.image in self._machine.pruned and self._named(spec.replica_id) is None:
            raise EngineError(f"The image of replica {spec.replica_id} is gone.", code=IMAGE_GONE)
        replica = self._named(spec.replica_id) or self._create(spec)
        if replica.installation_id != self._installation_id:
            raise EngineError(f"start replica {spec.replica_id}: the name belongs to another installation")
        if replica.started_at is not None:
            return replica.observed(now)
        program, failure = spec.command[0] if spec.command else None, None
        if (
            program is not None
            and replica.image.commands is not None
            and program not in replica.image.commands
        ):
            error = StartError(
                f"The start command {program!r} was not found in the image.", code="start_command_not_found"
            )
            if not self._machine.tells_failures_later:
                raise error
            failure = Failure(error.code, error.message)
        if any(
            other.spec.host_port == spec.host_port and other.phase(now) is ReplicaPhase.RUNNING
            for other in self._machine.replicas.values()
        ):
            raise EngineError(f"Port {spec.host_port} of the machine is in use.", code="port_taken")
        lifetime_s = replica.image.exits_after_s
        waits_until = now + timedelta(seconds=self._machine.waits_s)
        starts_at = waits_until + timedelta(seconds=self._machine.fetches_s)
        started = replace(
            replica,
            waits_until=waits_until,
            started_at=starts_at,
            failure=failure,
            ends_at=starts_at + timedelta(seconds=lifetime_s) if lifetime_s is not None else None,
            exit_code=EXIT_CODE_KILLED if replica.image.out_of_memory else replica.image.exit_code,
            out_of_memory=replica.image.out_of_memory,
        )
        self._machine.put(started)
        if spec.cache is not None:
            self._fill_cache(started, starts_at)
        return started.observed(now)

    async def stop(self, engine_id: str, grace_s: float) -> None:
        await self._reach()
        replica, now = self._own(engine_id), self._clock.now()
        if replica is None or replica.phase(now) is not ReplicaPhase.RUNNING:
            return
        polite = replica.image.ends_on_request
        ends_at = now if polite else now + timedelta(seconds=grace_s)
        if replica.ends_at is None or ends_at < replica.ends_at:
            exit_code = EXIT_CODE_TERMINATED if polite else EXIT_CODE_KILLED
            replica = replace(replica, ends_at=ends_at, exit_code=exit_code, out_of_memory=False)
            self._machine.put(replica)
        while (current := self._own(engine_id)) is not None and not current.has_ended(self._clock.now()):
            await self._machine.wait(until=current.ends_at)

    async def remove(self, engine_id: str) -> None:
        await self._reach()
        replica = self._own(engine_id)
        if replica is not None:
            self._machine.drop(replica)
            self._machine.caches.pop((replica.spec.container_id, replica.spec.replica_id), None)

    async def caches(self) -> list[HeldCache]:
        await self._reach()
        ours = [key for key in self._machine.caches if self._cache(*key) is not None]
        return [self._held(*key) for key in ours]

    async def trim_cache(
        self, container_id: ContainerId, replica_id: ReplicaId | None, to_bytes: int
    ) -> HeldCache | None:
        await self._reach()
        cache = self._cache(container_id, replica_id)
        if cache is None:
            return None
        if not self._held(container_id, replica_id).in_use:
            cache.size_bytes = min(cache.size_bytes, to_bytes)
        return self._held(container_id, replica_id)

    async def remove_cache(self, container_id: ContainerId, replica_id: ReplicaId | None) -> bool:
        await self._reach()
        if self._cache(container_id, replica_id) is not None:
            if self._held(container_id, replica_id).in_use:
                return False
            del self._machine.caches[container_id, replica_id]
        return True

    async def inspect(self, replica_id: ReplicaId) -> ObservedReplica | None:
        await self._reach()
        replica = self._named(replica_id)
        if replica is None or replica.installation_id != self._installation_id:
            return None
        return replica.observed(self._clock.now())

    async def list_replicas(self) -> list[ObservedReplica]:
        await self._reach()
        now = self._clock.now()
        return sorted((own.observed(now) for own in self._all_own()), key=lambda one: one.replica_id)

    def watch(self) -> AsyncIterator[ContainerId]:
        return self._changes_since(self._seen(), len(self._machine.removals))

    async def logs(
        self, engine_id: str, since_ns: int, last: int | None = None
    ) -> AsyncIterator[Sequence[LogChunk]]:
        given = 0
        await self._reach()
        while (replica := self._own(engine_id)) is not None:
            now = self._clock.now()
            due = due_output(replica, now)
            if last is not None:
                given, last = max(0, len(due) - last), None
            if chunks := [chunk for chunk in due[given:] if chunk.time_ns >= since_ns]:
                yield chunks
            given = len(due)
            if replica.phase(now) is not ReplicaPhase.RUNNING:
                return
            await self._machine.wait(until=next_moment(replica, now))
            self._hear()
        raise EngineError(f"read the log of {engine_id}: there is no such replica", code="replica_gone")

    async def listening_sockets(self, engine_id: str) -> tuple[ListeningSocket, ...]:
        await self._reach()
        replica, now = self._own(engine_id), self._clock.now()
        if (
            replica is None
            or replica.started_at is None
            or replica.has_ended(now)
            or not replica.image.listens
        ):
            return ()
        if now < replica.started_at + timedelta(seconds=replica.image.listens_after_s):
            return ()
        return (ListeningSocket(replica.image.listens_on_address, replica.spec.port),)

    async def process_limit_reached(self, engine_id: str) -> bool:
        await self._reach()
        replica = self._own(engine_id)
        return replica is not None and replica.image.reaches_process_limit

    async def diagnose_network(self, engine_id: str, questions: NetworkQuestions) -> NetworkDiagnosis:
        await self._reach()
        replica, online = self._own(engine_id), self._machine.online
        if replica is None or replica.phase(self._clock.now()) is not ReplicaPhase.RUNNING:
            raise EngineError(f"look at the network of {engine_id}: it does not run", code="replica_gone")
        silence = f"{RESOLVER} did not answer"
        return NetworkDiagnosis(
            resolvers=(RESOLVER,),
            upstream_resolvers=(),
            names=tuple(
                NameAnswer(name, ("192.0.2.1",) if online else (), None if online else silence)
                for name in questions.names
            ),
            outbound=tuple(
                Attempt(one.address, one.port, Outcome.CONNECTED if online else Outcome.TIMED_OUT)
                for one in questions.outbound
            ),
            forbidden=tuple(Attempt(one.address, one.port, Outcome.TIMED_OUT) for one in questions.forbidden),
        )

    async def last_lines(self, engine_id: str, count: int) -> tuple[str, ...]:
        await self._reach()
        replica = self._own(engine_id)
        written = due_output(replica, self._clock.now()) if replica is not None else []
        return tuple(chunk.data.decode("utf-8", "replace") for chunk in written[-count:])

    async def usage(self, engine_ids: Collection[str]) -> Mapping[str, ReplicaUsage]:
        await self._reach()
        now, found = self._clock.now(), {}
        for engine_id in engine_ids:
            replica = self._own(engine_id)
            if (
                replica is not None
                and replica.started_at is not None
                and replica.phase(now) is ReplicaPhase.RUNNING
            ):
                ran_s = (now - replica.started_at).total_seconds()
                cpu_time_s = ran_s * replica.image.cpu_millis / 1000
                found[engine_id] = ReplicaUsage(
                    self._clock.monotonic(), cpu_time_s, replica.image.memory_bytes
                )
        return found

    async def disk_space(self) -> DiskSpace | None:
        await self._reach()
        return self._machine.disk_space

    async def written_bytes(self, limits: Mapping[str, int]) -> Mapping[str, int]:
        await self._reach()
        found = {engine_id: self._own(engine_id) for engine_id in limits}
        return {
            engine_id: replica.image.written_bytes
            for engine_id, replica in found.items()
            if replica is not None
        }

    async def gpu_usage(self, device_ids: Collection[str]) -> Mapping[str, GpuUsage]:
        await self._reach()
        now = self._clock.now()
        return {
            device_id: replica.image.gpu_usage
            for replica in (self._all_own() if device_ids else ())
            if replica.phase(now) is ReplicaPhase.RUNNING
            for device_id in replica.spec.gpu_device_ids
            if device_id in device_ids
        }

    async def gpu_problems(self, device_ids: Collection[str]) -> Mapping[str, str]:
        await self._reach()
        return {one: why for one, why in self._machine.gpu_problems.items() if one in device_ids}

    async def capacity(self) -> list[NodeCapacity]:
        await self._reach()
        machine = self._machine
        return [
            NodeCapacity(
                machine.name,
                "operator",
                machine.architecture,
                machine.cpu_millis,
                machine.memory_bytes,
                tuple(
                    replace(gpu, unusable_because=machine.gpu_problems.get(gpu.device_id))
                    for gpu in machine.gpus
                ),
                gpu_driver=machine.gpu_driver,
                cuda_version=machine.cuda_version,
                engine_identity=machine.engine_identity,
                gpu_handover=GpuHandover.DIRECT if machine.gpus else GpuHandover.NONE,
                schedulable=machine.schedulable,
            )
        ]

    async def close(self) -> None:
        """The machine lives on."""

    async def _reach(self) -> None:
        """Every call goes this way."""
        if self._machine.answers_after_s:
            await self._clock.sleep(self._machine.answers_after_s)
        self._hear()

    def _hear(self) -> None:
        if not self._machine.reachable:
            raise EngineError(f"The engine of {self._machine.name} does not answer.")

    def _fill_cache(self, replica: SimulatedReplica, began_at: datetime) -> None:
        spec, image = replica.spec, replica.image
        key = (spec.container_id, None if spec.cache is not None and spec.cache.kept else spec.replica_id)
        there = self._machine.caches.get(key)
        if there is None or there.size_bytes < image.cached_bytes or there.whole_at > began_at:
            self._machine.downloads.append(spec.container_id)
            whole_at = began_at + timedelta(seconds=image.listens_after_s)
            size_bytes = max(image.cached_bytes, there.size_bytes if there is not None else 0)
            self._machine.caches[key] = SimulatedCache(self._installation_id, size_bytes, whole_at)

    def _cache(self, container_id: str, replica_id: str | None) -> SimulatedCache | None:
        cache = self._machine.caches.get((container_id, replica_id))
        return cache if cache is not None and cache.installation_id == self._installation_id else None

    def _held(self, container_id: str, replica_id: str | None) -> HeldCache:
        now, cache = self._clock.now(), self._machine.caches[container_id, replica_id]
        in_use = any(
            one.spec.container_id == container_id
            and one.phase(now) is not ReplicaPhase.EXITED
            and replica_id in (None, one.spec.replica_id)
            for one in self._machine.replicas.values()
        )
        kept_for = ReplicaId(replica_id) if replica_id is not None else None
        return HeldCache(ContainerId(container_id), kept_for, cache.size_bytes, 0, in_use)

    def _create(self, spec: ReplicaSpec) -> SimulatedReplica:
        image = next(
            (image for name, image in self._machine.images.items() if engine_ref(name) == spec.image), None
        )
        if image is None:
            raise EngineError(
                f"The image of replica {spec.replica_id} is not on the machine.", code="image_gone"
            )
        self._machine.started_count += 1
        replica = SimulatedReplica(
            self._installation_id,
            f"sim-{self._machine.started_count:08d}",
            spec,
            image,
            self._machine.address,
        )
        self._machine.put(replica)
        return replica

    def _named(self, replica_id: ReplicaId) -> SimulatedReplica | None:
        return next(
            (one for one in self._machine.replicas.values() if one.spec.replica_id == replica_id), None
        )

    def _own(self, engine_id: str) -> SimulatedReplica | None:
        replica = self._machine.replicas.get(engine_id)
        return replica if replica is not None and replica.installation_id == self._installation_id else None

    def _all_own(self) -> list[SimulatedReplica]:
        return [
            one for one in self._machine.replicas.values() if one.installation_id == self._installation_id
        ]

    def _seen(self) -> dict[str, ReplicaPhase]:
        now = self._clock.now()
        return {one.engine_id: one.phase(now) for one in self._all_own()}

    async def _changes_since(
        self, seen: dict[str, ReplicaPhase], removals_seen: int
    ) -> AsyncIterator[ContainerId]:
        while True:
            self._hear()
            current, removals = self._seen(), self._machine.removals[removals_seen:]
            removals_seen += len(removals)
            changed = [
                self._machine.replicas[engine_id].spec.container_id
                for engine_id, phase in current.items()
                if seen.get(engine_id, ReplicaPhase.CREATED) is not phase
            ]
            gone = [
                one.spec.container_id for _, one in removals if one.installation_id == self._installation_id
            ]
            seen = current
            for container_id in changed + gone:
                yield container_id
            if not changed and not gone:
                now = self._clock.now()
                moments = [
                    moment
                    for one in self._all_own()
                    for moment in (one.waits_until, one.started_at, one.ends_at)
                    if moment is not None and moment > now
                ]
                await self._machine.wait(until=min(moments, default=None))

"""The world of the simulated engine: images that say what their replicas do, and the machine they run on.

A replica's state at any moment is *computed* from its image and the clock; no timer has to fire for a process
to end. So a test may jump an hour ahead and look.
"""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from moorage.engines.base import (
    DiskSpace,
    Failure,
    GpuDevice,
    GpuUsage,
    LogChunk,
    LogStream,
    ObservedReplica,
    ReplicaPhase,
    ReplicaSpec,
)
from moorage.kit.clock import Clock
from moorage.kit.ids import InstallationId
from moorage.outbound.registry.credentials import RegistryCredentials

ARCHITECTURE = "amd64"
LOOPBACK = "127.0.0.1"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class SimulatedOutput:
    after_s: float
    stream: LogStream
    data: bytes


@dataclass(frozen=True)
class SimulatedImage:
    """What every replica of this image does, in seconds after its start."""

    pull_s: float = 0.0
    listens: bool = True
    listens_after_s: float = 0.0
    listens_on_address: str = "0.0.0.0"  # noqa: S104 - nothing is bound, it is a description
    exits_after_s: float | None = None
    exit_code: int = 0
    out_of_memory: bool = False
    reaches_process_limit: bool = False
    ends_on_request: bool = True
    """False: ignores the request to end, and is killed after its grace period."""
    cpu_millis: int = 0
    """What it uses of the processor all the time that it runs."""
    memory_bytes: int = 1_000_000
    written_bytes: int = 0
    """To its disk."""
    cached_bytes: int = 0
    """What it puts into its cache, unless that is there; all of it by the time that it listens."""
    gpu_usage: GpuUsage = field(default_factory=lambda: GpuUsage(0.0, 0, 30.0, 70.0))
    """Of each of its devices."""
    commands: frozenset[str] | None = None
    """Programs that are in the image; None: any."""
    output: tuple[SimulatedOutput, ...] = ()
    credentials: RegistryCredentials | None = None
    size_bytes: int = 1_000_000
    architecture: str = ARCHITECTURE
    exposed_ports: tuple[int, ...] = ()
    gpu_environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulatedReplica:
    installation_id: InstallationId
    engine_id: str
    spec: ReplicaSpec
    image: SimulatedImage
    address: str = LOOPBACK
    """Of its machine."""
    waits_until: datetime | None = None
    """Accepted, and without a machine until then."""
    started_at: datetime | None = None
    """Perhaps in times to come: until then its image is on the way."""
    failure: Failure | None = None
    """Why its process could not be started, where the machine says so later."""
    ends_at: datetime | None = None
    """The moment its process ends by itself or because of a stop; None: never."""
    exit_code: int = 0
    out_of_memory: bool = False

    def has_ended(self, now: datetime) -> bool:
        return self.ends_at is not None and self.ends_at <= now

    def phase(self, now: datetime) -> ReplicaPhase:
        if self.waits_until is not None and now < self.waits_until:
            return ReplicaPhase.WAITING
        if self.started_at is not None and now < self.started_at:
            return ReplicaPhase.PULLING
        if self.started_at is None or self.failure is not None:
            return ReplicaPhase.CREATED
        return ReplicaPhase.EXITED if self.has_ended(now) else ReplicaPhase.RUNNING

    def observed(self, now: datetime) -> ObservedReplica:
        ended = self.has_ended(now)
        began = self.started_at is not None and self.started_at <= now and self.failure is None
        there = self.phase(now) not in (ReplicaPhase.WAITING, ReplicaPhase.PULLING)
        return ObservedReplica(
            replica_id=self.spec.replica_id,
            container_id=self.spec.container_id,
            slot=self.spec.slot,
            generation=self.spec.generation,
            engine_id=self.engine_id,
            phase=self.phase(now),
            host=self.address if there else None,
            host_port=self.spec.host_port if there else None,
            started_at=self.started_at if began else None,
            ended_at=self.ends_at if ended else None,
            exit_code=self.exit_code if ended else None,
            out_of_memory=ended and self.out_of_memory,
            failure=self.failure if self.started_at is not None and self.started_at <= now else None,
        )


@dataclass
class SimulatedCache:
    installation_id: InstallationId
    size_bytes: int
    whole_at: datetime


@dataclass
class SimulatedMachine:
    """What an engine's daemon would be: it outlives engines, and several installations may share one
    without seeing each other."""

    clock: Clock
    images: Mapping[str, SimulatedImage]
    name: str = "simulated"
    address: str = LOOPBACK
    """Where its replicas are reached."""
    engine_identity: str | None = "simulated-engine"
    architecture: str = ARCHITECTURE
    cpu_millis: int = 8000
    memory_bytes: int = 32 * 1024**3
    disk_space: DiskSpace | None = None
    gpus: tuple[GpuDevice, ...] = ()
    gpu_driver: str | None = None
    cuda_version: str | None = None
    gpu_problems: dict[str, str] = field(default_factory=dict)
    """By device: why it computes nothing any more."""
    online: bool = True
    """Whether public addresses can be reached from it."""
    reachable: bool = True
    """False: its engine answers nobody, whatever becomes of its replicas meanwhile."""
    answers_after_s: float = 0.0
    """How long its engine takes for each answer."""
    schedulable: bool = True
    waits_s: float = 0.0
    """How long its engine, which places by itself, looks for a place for what it accepted."""
    fetches_s: float = 0.0
    """How long it then takes to have the image there."""
    tells_failures_later: bool = False
    """Why something cannot start is observed, not raised."""
    pulled: set[str] = field(default_factory=set)
    """Images, by the engine's reference, that were fetched from a registry."""
    pruned: set[str] = field(default_factory=set)
    """Images, by the engine's reference, that were here and are not any more."""
    caches: dict[tuple[str, str | None], SimulatedCache] = field(default_factory=dict)
    """By container, and by replica where they are not kept."""
    downloads: list[str] = field(default_factory=list)
    """Containers, one of whose replicas began and did not find all of it in its cache."""
    replicas: dict[str, SimulatedReplica] = field(default_factory=dict)
    """By engine id."""
    removals: list[tuple[datetime, SimulatedReplica]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set, and replaced by a new one, whenever a call changes a replica."""
    started_count: int = 0

    def put(self, replica: SimulatedReplica) -> None:
        self.replicas[replica.engine_id] = replica
        self._announce()

    def drop(self, replica: SimulatedReplica) -> None:
        del self.replicas[replica.engine_id]
        self.removals.append((self.clock.now(), replica))
        self._announce()

    def cut_off(self) -> None:
        """Nobody hears its engine any more."""
        self.reachable = False
        self._announce()

    def come_back(self) -> None:
        self.reachable = True
        self._announce()

    async def wait(self, until: datetime | None) -> None:
        """Until a call changes something or the clock reaches `until`, whichever is first."""
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self.changed.wait())]
        if until is not None:
            seconds = (until - self.clock.now()).total_seconds()
            waits.append(asyncio.ensure_future(self.clock.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # Not waited for: whoever waits for what is being cancelled takes its own cancellation for the other's.
            for one in waits:
                one.cancel()

    def _announce(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


def engine_ref(reference: str) -> str:
    return f"sha256:{hashlib.sha256(reference.encode()).hexdigest()}"


def due_output(replica: SimulatedReplica, now: datetime) -> list[LogChunk]:
    """What it has written by now; it writes nothing from the moment it ends, but all up to it."""
    if replica.started_at is None:
        return []
    last = min(now, replica.ends_at) if replica.ends_at is not None else now
    written = [
        (replica.started_at + timedelta(seconds=output.after_s), output) for output in replica.image.output
    ]
    return [
        LogChunk(_nanoseconds(time), output.stream, output.data, ends_line=True)
        for time, output in written
        if time <= last
    ]


def next_moment(replica: SimulatedReplica, now: datetime) -> datetime | None:
    moments = [replica.ends_at] if replica.ends_at is not None else []
    if replica.started_at is not None:
        moments += [replica.started_at + timedelta(seconds=one.after_s) for one in replica.image.output]
    return min((moment for moment in moments if moment > now), default=None)


def _nanoseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1) * 1000

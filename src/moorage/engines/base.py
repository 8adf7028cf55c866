"""What Moorage asks of a container engine: a small Protocol at the level of a replica, in two parts. `Lifecycle` is
everything that decides what runs; `Inside` looks at what runs, to say why and how much. Losing sight of the second costs
explanations and figures, never a replica.

An engine has no opinion. It starts exactly one process group for one `ReplicaSpec`, restarts nothing,
and reports what is there. Which replica lives, drains or goes is decided above.

Rules that every engine keeps, shown by one contract suite (`tests/engine/contract.py`):

- The engine-side name follows from the replica id. `start` of a replica that is already there adopts it, so a
  lost reply is never answered with a second copy.
- `stop` and `remove` address the engine's own id, so they can never hit a successor of the same name.
  Both are idempotent: what is gone already is fine.
- `list_replicas` is complete or raises `EngineError`; it never returns a part.
- Only objects that carry this installation's id are seen or touched.

An engine stands for one machine, or for a cluster that it places in by itself. Several are kept in `engines.Engines`,
each under a name of its own; an engine does not know its name.

To add an engine: implement `Engine`, take the limits from `profile.py`, and add it to the contract suite.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from moorage.engines.diagnosis import NetworkDiagnosis, NetworkQuestions
from moorage.kit.ids import ContainerId, OrganizationId, ProjectId, ReplicaId
from moorage.outbound.registry.credentials import RegistryCredentials

LOCAL_ENGINE = "local"
"""The name of the engine on the machine that Moorage itself runs on."""
WRONG_CLOCK = "its clock is"
"""How a machine's `closed_because` begins where that is the reason."""
IMAGE_GONE = "image_gone"
"""The code of the `EngineError` of a start whose image is not there any more: it has to be ensured again."""


@dataclass(frozen=True)
class ImageRequest:
    """An image as the user named it, made whole: `ghcr.io/acme/chat:1.2`, or `local/chat:latest`."""

    reference: str
    credentials: RegistryCredentials | None = None
    local: bool = False
    """Built on this machine by the operator: looked up under its `local/…` tag, never pulled."""
    organization_id: OrganizationId | None = None
    """Whose it is: each organization has its own share of the pulls that run at the same time."""


@dataclass(frozen=True)
class PulledImage:
    engine_ref: str
    size_bytes: int
    """With layers that other images share."""


@dataclass(frozen=True)
class PullProgress:
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Image:
    """An image that is ready to start. `engine_ref` pins its content: no tag can move it any more."""

    engine_ref: str
    digest: str | None
    size_bytes: int
    architecture: str
    exposed_ports: tuple[int, ...]
    gpu_environment: Mapping[str, str] = field(default_factory=dict)
    """Of its environment, what it says about the driver that it needs (`nvidia.GPU_VARIABLES`)."""


@dataclass(frozen=True)
class CacheSpec:
    """Room on its machine for what a container downloads and compiles (docs/caches.md)."""

    size_bytes: int
    """More than this it must not hold; whoever watches sees to that."""
    kept: bool = True
    """For the container's other replicas there and for its later starts. Otherwise it is this replica's alone and ends with it."""


@dataclass(frozen=True)
class HeldCache:
    container_id: ContainerId
    replica_id: ReplicaId | None
    """Of one that is not kept: whose it is."""
    size_bytes: int
    compiled_bytes: int
    """Of that, what compilers wrote; the rest was downloaded."""
    in_use: bool
    """A process that has it runs, or is about to."""


@dataclass(frozen=True)
class ReplicaSpec:
    """Everything an engine needs to start one replica; nothing in it is looked up later."""

    replica_id: ReplicaId
    container_id: ContainerId
    project_id: ProjectId
    organization_id: OrganizationId
    slot: int
    generation: int
    image: str
    """`Image.engine_ref`."""
    command: tuple[str, ...] | None
    """Replaces ENTRYPOINT and CMD together; None keeps the image's own."""
    environment: Mapping[str, str] = field(repr=False)
    port: int
    """Where the process listens, inside."""
    host_port: int | None
    """Where Moorage reaches it on its machine, allocated by Moorage; None where the engine gives addresses itself."""
    vcpu_millis: int
    memory_bytes: int
    disk_bytes: int
    gpu_device_ids: tuple[str, ...] = ()
    gpu_model: str | None = None
    """Of those GPUs, for an engine that chooses the machine."""
    avoided_nodes: tuple[str, ...] = ()
    """Where it must not go, for such an engine."""
    only_node: str | None = None
    """The one place where it may go, for such an engine."""
    cache: CacheSpec | None = None


class ReplicaPhase(StrEnum):
    WAITING = "waiting"
    """The engine has accepted it, and has not found a machine for it yet."""
    PULLING = "pulling"
    """Its image is on the way to its machine."""
    CREATED = "created"
    """Exists, but its process has not been started (or could not be)."""
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True)
class Failure:
    """Why an engine could not start a replica that it had accepted: what `start` raises where it knows at once."""

    code: str
    """Of a `StartError`, an `ImageError` or an `EngineError`."""
    message: str


@dataclass(frozen=True)
class ObservedReplica:
    replica_id: ReplicaId
    container_id: ContainerId
    slot: int
    generation: int
    engine_id: str
    phase: ReplicaPhase
    host: str | None
    """Address and port where the gateway and our probes reach it; None while it has none."""
    host_port: int | None
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    out_of_memory: bool
    has_door: bool = False
    """What is at that address proves on each connection that it is this replica (`doors.py`): nobody may speak to it otherwise."""
    failure: Failure | None = None
    """Why it will never run; of one that ended, why its engine or its machine ended it."""
    node: str | None = None
    """The machine that it is on, where its engine chose it."""
    unreachable_since: datetime | None = None
    """Its engine does not hear from its machine any more: what is said here was so then."""


@dataclass(frozen=True)
class ListeningSocket:
    address: str
    port: int


class LogStream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class LogChunk(NamedTuple):
    """Output of a replica. A long line comes as several chunks; only the last one `ends_line`. A tuple, because
    tens of thousands of them are made in a second."""

    time_ns: int
    """The engine's time in nanoseconds since 1970; not unique."""
    stream: LogStream
    data: bytes
    ends_line: bool


@dataclass(frozen=True)
class ReplicaUsage:
    """What a replica has used and holds, at one moment."""

    read_at_s: float
    """On the monotonic clock."""
    cpu_time_s: float
    """Since it started, of all its processes."""
    memory_bytes: int
    """Without the pages of files that the kernel would give back at once."""


@dataclass(frozen=True)
class DiskSpace:
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class GpuUsage:
    """A figure that a device does not tell is None."""

    utilization_percent: float | None
    memory_bytes: int | None
    temperature_celsius: float | None
    power_watts: float | None


class GpuHandover(StrEnum):
    """How a machine's GPUs get into containers; `handover.py` chooses."""

    RUNTIME = "runtime"
    """NVIDIA's container runtime puts them there."""
    CDI = "cdi"
    """The engine does, by the machine's CDI specification."""
    DIRECT = "direct"
    """Moorage names the device nodes and the driver's own files, which are mounted read-only."""
    NONE = "none"


@dataclass(frozen=True)
class GpuDevice:
    device_id: str
    model: str
    memory_bytes: int | None
    """None where it does not tell: it computes in the machine's memory."""
    unusable_because: str | None = None
    """Why nothing may be started on it: it broke, or cannot be handed over. A clause, for people."""


@dataclass(frozen=True)
class HostFinding:
    """Something that is wrong with a machine: one sentence, and the command that helps."""

    code: str
    message: str
    command: str
    broken: bool
    """True: something does not work. False: it works, and may stop working."""


class MachineKey(NamedTuple):
    """A machine in the whole installation."""

    engine: str
    node: str


@dataclass(frozen=True)
class NodeCapacity:
    """What one machine has in all; what is taken is known from the replicas' rows."""

    name: str
    infrastructure: str
    architecture: str
    cpu_millis: int
    memory_bytes: int
    gpus: tuple[GpuDevice, ...]
    """All that are there, also those that nothing may be started on."""
    gpu_driver: str | None = None
    cuda_version: str | None = None
    """The newest CUDA that its driver runs."""
    engine_identity: str | None = None
    """The engine's own, for as long as it keeps its data: what was given to an engine of another is not here."""
    closed_because: str | None = None
    """Why nothing new may start there: it cannot keep containers apart, or its clock is wrong. In words for the operator."""
    weaknesses: tuple[str, ...] = ()
    """What is not as tight there as it could be, in words for the operator."""
    gpu_handover: str = GpuHandover.NONE
    gpu_handover_reason: str | None = None
    """Why this way, or why none; None where there is no GPU."""
    findings: tuple[HostFinding, ...] = ()
    """What its doctor found."""
    schedulable: bool = True
    """Whether its engine takes new replicas there."""
    engine: str = LOCAL_ENGINE
    """Under which name; an engine itself does not know."""
    ready: bool = True
    """Its engine answers."""
    unready_since: datetime | None = None
    cordoned: bool = False
    """The operator wants nothing new there."""
    draining: bool = False
    """The operator wants it empty: what runs there moves elsewhere. An engine says so where it is told, as a cluster is."""
    owner: str | None = None
    """The organization that lends it; None: the operator's."""
    on_probation: bool = False
    """It has yet to show that it stays: never a container's only one."""

    @property
    def key(self) -> MachineKey:
        return MachineKey(self.engine, self.name)

    @property
    def clock_is_wrong(self) -> bool:
        """That is why it is closed."""
        return self.closed_because is not None and self.closed_because.startswith(WRONG_CLOCK)

    @property
    def takes_replicas(self) -> bool:
        return self.ready and self.schedulable and not self.cordoned and not self.draining


class Lifecycle(Protocol):
    """What runs, and what does not."""

    async def prepare(self) -> None:
        """Make true what must be true before any replica starts (network, firewall); cheap to repeat."""
        ...

    async def ensure_image(self, request: ImageRequest, on_progress: Callable[[PullProgress], None]) -> Image:
        """Have the image here and pin it. A remote image is always asked for at its registry with these
        credentials, even if it is cached: a cached private image is nobody else's. The engine itself connects to
        nothing that a user named: it pulls through `outbound.pulls`. Raises `ImageError`."""
        ...

    async def pulled_images(self) -> list[PulledImage]:
        """Those that were pulled for containers; never the operator's own."""
        ...

    async def remove_image(self, engine_ref: str) -> bool:
        """False where something still uses it."""
        ...

    async def start(self, spec: ReplicaSpec) -> ObservedReplica:
        """Create and start, or adopt what an earlier call left. What is there may still be `WAITING` or `PULLING`, and
        why it then cannot start is its `failure`. An engine that knows at once raises: `StartError` where the image or its
        command is at fault, `EngineError` where the engine is (code `port_taken`: try another port; `image_gone`: ensure it again). Either
        may leave the replica behind as `CREATED`; it holds no port, and is removed like any other."""
        ...

    async def stop(self, engine_id: str, grace_s: float) -> None:
        """Ask the process to end, kill it after `grace_s`; returns when it has ended."""
        ...

    async def remove(self, engine_id: str) -> None:
        """With its cache, unless that is kept."""
        ...

    async def caches(self) -> list[HeldCache]:
        """Complete or an error. It may take long: it looks through all of them."""
        ...

    async def trim_cache(
        self, container_id: ContainerId, replica_id: ReplicaId | None, to_bytes: int
    ) -> HeldCache | None:
        """Take away what was not used for longest, whole models at a time, until it holds no more than that; nothing that a
        process uses. What it holds then; None where there is no such cache."""
        ...

    async def remove_cache(self, container_id: ContainerId, replica_id: ReplicaId | None) -> bool:
        """False where something still uses it; what is gone already is fine."""
        ...

    async def inspect(self, replica_id: ReplicaId) -> ObservedReplica | None: ...

    async def list_replicas(self) -> list[ObservedReplica]: ...

    def watch(self) -> AsyncIterator[ContainerId]:
        """Containers one of whose replicas just ended or went, or began to run after it had been accepted, as a hint; ends with `EngineError` when the
        connection does. Whoever listens compares everything again after a reconnect."""
        ...

    async def capacity(self) -> list[NodeCapacity]: ...

    async def close(self) -> None: ...


class Inside(Protocol):
    """What can be seen of what runs."""

    def logs(
        self, engine_id: str, since_ns: int, last: int | None = None
    ) -> AsyncIterator[Sequence[LogChunk]]:
        """All output from `since_ns` on, inclusive, then live until the process ends; what arrived together
        comes together. With `last`, only so many chunks of what is there already, which costs an engine less.
        Returning means that all of it was given; a broken connection, or a replica removed meanwhile, is an
        `EngineError`."""
        ...

    async def listening_sockets(self, engine_id: str) -> tuple[ListeningSocket, ...]:
        """What listens inside the replica's network namespace; empty where that cannot be seen."""
        ...

    async def process_limit_reached(self, engine_id: str) -> bool:
        """Whether it was refused a process or thread because it has as many as it may; false where that cannot
        be seen."""
        ...

    async def diagnose_network(self, engine_id: str, questions: NetworkQuestions) -> NetworkDiagnosis:
        """Ask from inside the replica's network namespace, in bounded time. `EngineError` where it does not run
        (code `replica_gone`) or its namespace cannot be entered."""
        ...

    async def last_lines(self, engine_id: str, count: int) -> tuple[str, ...]:
        """The end of its output, oldest first, of both streams, for a verdict; empty when it is gone."""
        ...

    async def usage(self, engine_ids: Collection[str]) -> Mapping[str, ReplicaUsage]:
        """Of those that run and whose figures can be seen; the others are left out. Cheap: it is asked every second."""
        ...

    async def disk_space(self) -> DiskSpace | None:
        """Of the disk that replicas write to; None where it cannot be seen. Cheap: it is asked every second."""
        ...

    async def written_bytes(self, limits: Mapping[str, int]) -> Mapping[str, int]:
        """What each replica, by its engine id, has written to its disk; exact up to its limit. Those for which it
        cannot be seen are left out. It may take long."""
        ...

    async def gpu_usage(self, device_ids: Collection[str]) -> Mapping[str, GpuUsage]:
        """The same for GPUs."""
        ...

    async def gpu_problems(self, device_ids: Collection[str]) -> Mapping[str, str]:
        """Why each of these can compute nothing any more; those that can are left out. Cheap: it is asked every second
        or two."""
        ...


class Engine(Lifecycle, Inside, Protocol):
    """All that a machine's engine does."""

"""What a plan for a container is made from, and what it says. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from moorage.containers.start_limit import AllowanceSpent
from moorage.containers.states import ContainerState, DesiredState, Reason, ReplicaState, TrialStep
from moorage.containers.verdict import Probe, Verdict
from moorage.engines.base import ListeningSocket, ObservedReplica
from moorage.kit.ids import ReplicaId

NO_CREDIT = Verdict(
    Reason.INSUFFICIENT_CREDIT, "The credit does not cover an hour of it. It starts once you top up."
)
OVER_LIMIT = Verdict(
    Reason.SPENDING_LIMIT,
    "The monthly spending limit leaves no room for an hour of it. It starts once you raise the limit under "
    "Billing or with `moor billing limits`.",
)
ENGINE_SILENT = Verdict(Reason.ENGINE_ERROR, "The container engine does not answer. Trying again.")


@dataclass(frozen=True)
class Beside:
    """Of a version that serves, or comes up, beside the one that it is to take over from."""

    old_generation: int
    begun_at: datetime
    watch: timedelta
    """How long it has to serve well before the other one goes."""
    errors: Verdict | None = None
    """It answers more errors than it may."""
    called_off: Verdict | None = None
    """Somebody wants the other one back."""
    lost: Verdict | None = None
    """Why a replica of the other one ended in this pass, whose successor does not serve yet."""


@dataclass(frozen=True)
class ContainerView:
    """The container as its row says, and what was found out about it for this pass."""

    desired_state: DesiredState
    desired_replicas: int
    generation: int
    failed_generation: int
    serving_generation: int
    unready_since: datetime | None
    image_known: bool
    """The image of this generation is here and pinned."""
    pulling: bool
    port: int
    health_path: str | None
    health_timeout: timedelta
    drain_limit: timedelta
    memory_bytes: int
    disk_bytes: int
    room_for: int
    """How many more replicas of its instance type the machines can hold."""
    no_room_message: str
    """Where there is none."""
    recent_failures: Sequence[tuple[int, datetime]]
    """(slot, ended_at) of replicas of this generation that ended badly in the last minutes."""
    last_failure: Verdict | None
    """Why the newest of those ended; of a generation that was given up, why it was."""
    avoids_nodes: bool = False
    """Its new replicas stay away from the machines of its old ones, so it gains nothing by ending those first."""
    unpayable_slots: frozenset[int] = frozenset()
    """Slots without an hour that the organization's credit, or what may be spent of it, does not stretch to."""
    unpayable_because: Verdict = NO_CREDIT
    stopped_because: Verdict | None = None
    """Why it was stopped, if not by whoever manages it."""
    engine_failing: bool = False
    """The last engine call for it that did not end with an answer about the container itself failed."""
    instance_type: str = ""
    larger_instance_type: str | None = None
    """What to take instead where its memory was too small; None where there is nothing larger."""
    approval: Verdict | None = None
    """It wants more replicas than its project may have, and waits for the operator or was refused by them."""
    failed_starts: Sequence[tuple[int, datetime]] = ()
    """(slot, ended_at) of its replicas of the last hour, of any generation, that never became ready."""
    failed_starts_per_hour: int = 6
    """So many of one slot are free; the next waits."""
    allowance_spent: AllowanceSpent | None = None
    """Its organization started too much today that came to nothing."""
    trial: TrialStep | None = None
    """How far the application of a draft has come."""
    trial_failure: Verdict | None = None
    """Why the last draft that was applied was given up."""
    serving_image_known: bool = True
    """What the generation that serves runs can be started again, whatever a restart has found since."""
    restart_failure: Verdict | None = None
    """Why the last restart was given up, of which what served before it is what is left."""
    beside: Beside | None = None
    """Of a trial with `rolling`, from the moment that its settings are the container's."""
    bringing_image: bool = False
    """Its image is on the way to the machine of one of its replicas."""
    doubt: Verdict | None = None
    """Why replicas that are missing are not replaced yet."""
    asleep_since: datetime | None = None
    """From then on it is to have no replicas, until somebody asks something of it. What still has requests serves on."""
    waking: bool = False
    """It slept, and no replica is at the endpoint again yet: its requests are held."""
    watched_since: datetime | None = None
    """When the last time ended in which nobody looked at it: no limit counts from before (`attention.py`)."""
    first_slot: int = 0
    """Of a canary those from `FIRST_CANARY_SLOT` on are its own."""

    @property
    def asleep(self) -> bool:
        return self.asleep_since is not None

    @property
    def slots(self) -> range:
        """That are to have a replica."""
        return range(self.first_slot, self.first_slot + self.desired_replicas)


@dataclass(frozen=True)
class ReplicaView:
    """A replica that is not removed yet: its row, the engine's word, and the gateways'."""

    id: ReplicaId
    slot: int
    generation: int
    state: ReplicaState
    created_at: datetime
    started_at: datetime | None
    draining_at: datetime | None
    ended_at: datetime | None
    collected: bool
    observed: ObservedReplica | None
    probe: Probe | None
    """The last that has ended."""
    sockets: tuple[ListeningSocket, ...]
    busy: bool
    """An engine call for it is under way in this process."""
    at_gateways: bool
    """At least one gateway has it as a server, draining or not."""
    taking_requests: bool
    """At least one gateway sends it new requests."""
    in_flight: int
    failing_since: datetime | None = None
    """Since when it fails the gateways' health checks and answers no request either; None while it answers."""
    failing: Probe | None = None
    """How it fails them."""
    process_limit_reached: bool = False
    last_lines: tuple[str, ...] = ()
    """Of one that ended: the end of its output."""
    unfunded: bool = False
    """Its next hour could not be paid."""
    evicted: Verdict | None = None
    """Why it has to go at once."""
    probing: bool = False
    """A health check of it is under way, and asks for a pass when it ends."""
    doubted: bool = False
    """Its engine does not name it, and may be wrong."""
    unreachable: bool = False
    """Its engine does not answer, while others do. Nobody knows how it is, but the gateways."""
    silent_since: datetime | None = None
    """Of one that is unreachable: since when nobody hears from its machine, where another answers that could replace it."""
    machine_left: bool = False
    """Its machine is none of ours any more."""
    moving: bool = False
    """Its machine is to be empty: it serves until another of its slot does."""
    routed_at: datetime | None = None
    cache_worked: bool = False
    """What the cache on its machine holds has brought these settings up before."""
    download_kept_bytes: int | None = None
    """While it downloads into a cache that outlives it: how much is there."""
    untried: bool = False
    """It has not begun, because another fills the cache of its machine first (`caches/turns.py`)."""
    replaced: bool = False
    """It drains because it failed: its successor need not wait for its end, unless another such one drains in its slot."""


@dataclass(frozen=True)
class Transition:
    """A replica's row moves on. `verdict` says why it ended, when it ended badly."""

    replica_id: ReplicaId
    to: ReplicaState
    observed: ObservedReplica | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True)
class Plan:
    state: ContainerState
    verdict: Verdict | None = None
    """Reason and message to show with the state."""
    failed: bool = False
    """Give this generation up; it is not tried again until somebody starts it."""
    gone: bool = False
    """A deleted container of which nothing is left."""
    ensure_image: bool = False
    prepare_trial: bool = False
    """Fetch the image of the settings that are to be tried."""
    exchange: bool = False
    """Nothing runs any more: the settings that are to be tried become the container's."""
    proven: bool = False
    """What was beside the version before it has served well for long enough: that one goes."""
    go_back: Verdict | None = None
    """The settings on trial failed, for this reason: those from before become the container's again."""
    resume: Verdict | None = None
    """The restart failed, for this reason: what served all the time is the deployment again."""
    create_slots: tuple[int, ...] = ()
    """Insert a row in `requested`; the engine hears of it only after the commit."""
    transitions: tuple[Transition, ...] = ()
    start: tuple[ReplicaId, ...] = ()
    stop: tuple[ReplicaId, ...] = ()
    kill: tuple[ReplicaId, ...] = ()
    """Stop without the time that others get to end by themselves."""
    remove: tuple[ReplicaId, ...] = ()
    awake: bool = False
    """It woke, or failed to: nobody has to be held any more."""
    hold_slots: tuple[int, ...] = ()
    """Slots that are still wanted: credit that is held for any other is given back."""
    in_doubt: bool = False
    """Some of its replicas are missing and perhaps there: no time runs against it."""
    look_again_in_s: float | None = None
    """None: only a change can give us something to do."""

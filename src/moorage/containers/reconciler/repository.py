"""The containers reconciler's SQL: what is due, what a pass writes, and what the sweeps look at."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    and_,
    bindparam,
    case,
    func,
    literal,
    select,
    text,
    true,
    update,
)
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.models import InstanceTypeRow, NodeRow
from moorage.containers.activity import SYSTEM, record_activity
from moorage.containers.attention import ABSENT_AFTER, LONGEST_LOOK
from moorage.containers.capacity_repository import HOLDS_RESOURCES, NOT_REMOVED, on_engines
from moorage.containers.channels import ROUTES
from moorage.containers.models import ContainerRow, GatewayRow, ReplicaRouteRow, ReplicaRow
from moorage.containers.probe_history import ProbeRun
from moorage.containers.reconciler.funding import Funded
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.states import ContainerState, DesiredState, ReplicaState
from moorage.containers.trial import image_of
from moorage.containers.verdict import Verdict
from moorage.containers.versions.repository import note_image
from moorage.containers.views import ENGINE_SILENT, Plan, Transition
from moorage.engines.base import ObservedReplica
from moorage.kit.database import table_of
from moorage.kit.errors import EngineError

_IDS_PER_STATEMENT = 1000
_STEP_LIMIT = timedelta(minutes=1)
"""Longer than a gateway takes from reading its table to the report of what it made of it."""
_CONTAINER_TABLE, _REPLICA_TABLE = table_of(ContainerRow), table_of(ReplicaRow)
_ASKED = ("desired_state", "desired_replicas", "generation", "instance_type", "asleep_since")
"""The columns that say what is asked for."""
_UNSEEN_BY_GATEWAYS = (ReplicaState.STARTING, ReplicaState.ROUTED)
"""Moves to these change nothing in what a gateway should hold."""
_TIME_OF_STATE = {
    ReplicaState.STARTING: "started_at",
    ReplicaState.READY: "ready_at",
    ReplicaState.ROUTED: "routed_at",
    ReplicaState.DRAINING: "draining_at",
    ReplicaState.STOPPED: "ended_at",
    # Its end was committed before this pass began, so no gateway reads it as a server from here on.
    ReplicaState.COLLECTED: "port_idle_since",
}


@dataclass(frozen=True)
class Disk:
    replica_id: str
    container_id: str
    engine_id: str | None
    """None: it has nothing there yet."""
    disk_bytes: int
    """That its instance type has."""
    ended: bool


@dataclass(frozen=True)
class FoundImage:
    """What the image of a deployment turned out to be."""

    ref: str
    """The engine's own name for it, which pins its content."""
    digest: str | None
    port: int
    gpu_environment: Mapping[str, str] = field(default_factory=dict)
    """What it asks of a GPU's driver."""


@dataclass(frozen=True)
class GpuUser:
    """A replica that has GPUs."""

    replica_id: str
    container_id: str
    node: str
    device_ids: tuple[str, ...]


# Made once: asked after every change.
_SOONEST = (
    select(ContainerRow.id, func.extract("epoch", ContainerRow.reconcile_at - func.clock_timestamp()))
    .where(ContainerRow.reconcile_at.is_not(None))
    .order_by(ContainerRow.reconcile_at)
    .limit(bindparam("limit"))
)


# No pass plans the next one so late: the clock was set back since, and nobody would look for hours.
_LEFT_BEHIND = (
    select(ContainerRow.id)
    .where(ContainerRow.reconcile_at > func.clock_timestamp() + LONGEST_LOOK + ABSENT_AFTER)
    .order_by(ContainerRow.reconcile_at)
    .limit(bindparam("limit"))
)


async def due_containers(session: AsyncSession, limit: int) -> tuple[list[str], float | None]:
    # One more than asked for: the first that is not due yet says how long to wait.
    soonest = (await session.execute(_SOONEST, {"limit": limit + 1})).all()
    keys = [key for key, in_s in soonest if in_s <= 0]
    if soonest and soonest[-1][1] > LONGEST_LOOK.total_seconds():
        keys += (await session.execute(_LEFT_BEHIND, {"limit": limit})).scalars()
    return keys[:limit], next((float(in_s) for _, in_s in soonest if in_s > 0), None)


async def write_container(
    session: AsyncSession,
    loaded: Loaded,
    plan: Plan,
    progress: dict[str, Any] | None,
    image: FoundImage | Verdict | None,
) -> bool:
    """Write what the plan says about the container, and the image that this pass found. First in its transaction: it
    locks the row, and nobody moves its hours or replicas until the end. Whether the row still asks for what the pass
    was made for."""
    values = image_columns(loaded.container, image) if image is not None else {}
    return await _write_container(session, loaded, plan, values | {"progress": progress})


async def move_replicas(
    session: AsyncSession, plan: Plan, funded: Funded, probes: Mapping[str, Sequence[ProbeRun]]
) -> None:
    for transition in plan.transitions:
        if transition.to is ReplicaState.READY and transition.replica_id in funded.kept_back:
            await _keep_starting(session, transition)
        else:
            await _move(session, transition, probes.get(transition.replica_id, ()))
    if funded.unpaid:
        unpaid = update(ReplicaRow).where(ReplicaRow.id.in_(funded.unpaid))
        await session.execute(unpaid.values(unfunded_at=func.now()))


async def record_image(session: AsyncSession, container: ContainerRow, found: FoundImage | Verdict) -> None:
    same_deployment = (ContainerRow.id == container.id) & (ContainerRow.generation == container.generation)
    written = update(ContainerRow).where(same_deployment).values(image_columns(container, found))
    version = (await session.execute(written.returning(ContainerRow.version))).scalar_one_or_none()
    if version is not None and isinstance(found, FoundImage):
        await note_image(session, container.id, version, image_json(found))


def image_json(found: FoundImage) -> dict[str, Any]:
    """As it is kept where it is not the container's own, or not yet."""
    return {
        "ref": found.ref,
        "digest": found.digest,
        "port": found.port,
        "gpu_environment": dict(found.gpu_environment),
    }


def image_columns(container: ContainerRow, found: FoundImage | Verdict) -> dict[str, Any]:
    if isinstance(found, Verdict):
        return {
            "failed_generation": container.generation,
            "failure_reason": found.reason,
            "failure_message": found.message,
            "failure_fix": found.fix and found.fix.to_json(),
        }
    return {
        "image_generation": container.generation,
        "image_ref": found.ref,
        "image_digest": found.digest,
        "port": found.port,
        "image_gpu_environment": dict(found.gpu_environment),
    }


async def record_start_failure(
    session: AsyncSession, replica_id: str, verdict: Verdict, *, badly: bool
) -> None:
    ended = {
        "state": ReplicaState.STOPPED,
        "ended_at": func.now(),
        "reason": verdict.reason,
        "message": verdict.message,
        "fix": verdict.fix and verdict.fix.to_json(),
        "ended_badly": badly,
    }
    not_started = (ReplicaRow.id == replica_id) & (ReplicaRow.state == ReplicaState.REQUESTED)
    await session.execute(update(ReplicaRow).where(not_started).values(ended))


async def postpone(session: AsyncSession, container_id: str, error: Exception) -> None:
    """1 s, 2 s, 4 s … 60 s. Shown to the user unless the container serves all the same."""
    await session.execute(
        update(ContainerRow)
        .where(ContainerRow.id == container_id)
        .values(
            failed_passes=ContainerRow.failed_passes + 1,
            reconcile_at=func.now()
            + func.least(func.power(2, func.least(ContainerRow.failed_passes, 6)), 60)
            * text("interval '1 second'"),
        )
    )
    if isinstance(error, EngineError):
        hidden = (ContainerState.RUNNING, ContainerState.STOPPED, ContainerState.FAILED)
        waiting = update(ContainerRow).where(
            ContainerRow.id == container_id, ContainerRow.state.not_in(hidden)
        )
        await session.execute(waiting.values(reason=ENGINE_SILENT.reason, message=ENGINE_SILENT.message))


async def put_to_rest(session: AsyncSession, container_id: str) -> None:
    """Of one that is gone no pass is due."""
    gone = (ContainerRow.id == container_id) & ContainerRow.deleted_at.is_not(None)
    await session.execute(update(ContainerRow).where(gone).values(reconcile_at=None))


@dataclass(frozen=True)
class KnownReplica:
    id: str
    container_id: str
    state: str


async def replicas_by_engine_presence(
    session: AsyncSession, engines: Collection[str]
) -> dict[str, list[KnownReplica]]:
    """Everything that should be known to each of these engines."""
    query = select(ReplicaRow.engine, ReplicaRow.id, ReplicaRow.container_id, ReplicaRow.state)
    found: dict[str, list[KnownReplica]] = {engine: [] for engine in engines}
    for engine, *replica in await session.execute(query.where(NOT_REMOVED, on_engines(engines))):
        found[engine].append(KnownReplica(*replica))
    return found


async def containers_on(session: AsyncSession, engine: str) -> list[str]:
    """Those that have something there."""
    query = select(ReplicaRow.container_id).where(NOT_REMOVED, ReplicaRow.engine == engine)
    return sorted((await session.execute(query.distinct())).scalars())


async def release_ports(session: AsyncSession) -> None:
    """A port is free once no gateway has its replica, and each has reported since it can only read that the replica
    has ended. One that fell silent long before the replica was ready never read of it. Rows that somebody holds are
    left to the next time: this waits for nobody, so nobody can wait for it in a circle."""
    may_have_read = ReplicaRow.ready_at.is_not(None) & (
        GatewayRow.seen_at > ReplicaRow.ready_at - _STEP_LIMIT
    )
    late = select(GatewayRow.id).where(may_have_read, GatewayRow.seen_at <= ReplicaRow.port_idle_since)
    holding = select(ReplicaRouteRow.replica_id).where(ReplicaRouteRow.replica_id == ReplicaRow.id)
    free = (
        select(ReplicaRow.id)
        .where(
            ReplicaRow.port_released_at.is_(None),
            ReplicaRow.port_idle_since.is_not(None),
            ~late.exists(),
            ~holding.exists(),
        )
        .with_for_update(skip_locked=True, key_share=True)
    )
    released = update(ReplicaRow).where(ReplicaRow.id.in_(free)).values(port_released_at=func.now())
    await session.execute(released.execution_options(synchronize_session=False))


async def list_disks(session: AsyncSession, engines: Collection[str]) -> dict[str, list[Disk]]:
    """Of all that are there, or are to be, newest first."""
    ended = ReplicaRow.state.in_((ReplicaState.STOPPED, ReplicaState.COLLECTED))
    query = (
        select(
            ReplicaRow.engine,
            ReplicaRow.id,
            ReplicaRow.container_id,
            ReplicaRow.engine_id,
            InstanceTypeRow.disk_bytes,
            ended,
        )
        .join(InstanceTypeRow, InstanceTypeRow.name == ReplicaRow.instance_type)
        .where(NOT_REMOVED, on_engines(engines))
        .order_by(ReplicaRow.created_at.desc(), ReplicaRow.id.desc())
    )
    found: dict[str, list[Disk]] = {engine: [] for engine in engines}
    for engine, one, container, engine_id, disk_bytes, is_ended in await session.execute(query):
        found[engine].append(Disk(one, container, engine_id, disk_bytes, is_ended))
    return found


async def list_gpu_users(session: AsyncSession, engines: Collection[str]) -> dict[str, list[GpuUser]]:
    """Of all that hold some there."""
    row = ReplicaRow
    query = select(row.engine, row.id, row.container_id, row.node, row.gpu_device_ids).where(
        NOT_REMOVED,
        row.state.in_(HOLDS_RESOURCES),
        func.cardinality(row.gpu_device_ids) > 0,
        on_engines(engines),
    )
    found: dict[str, list[GpuUser]] = {engine: [] for engine in engines}
    for engine, one, container, node, devices in await session.execute(query):
        found[engine].append(GpuUser(one, container, node, tuple(devices)))
    return found


async def image_refs_in_use(session: AsyncSession) -> set[str]:
    """Of what runs or is to run, of a draft on trial, and of what it, or a restart, would go back to."""
    row = ContainerRow
    kept = (row.trial_image, row.fallback["image"], row.serving_image)
    refs = (row.image_ref, *(image["ref"].astext for image in kept))
    wanted = (row.deleted_at.is_(None)) & (row.desired_state == DesiredState.RUNNING)
    found = await session.execute(select(*refs).where(wanted).distinct())
    return {ref for refs_of_one in found for ref in refs_of_one if ref is not None}


async def known_replica_ids(session: AsyncSession, ids: Iterable[str]) -> set[str]:
    return await _ids_of_those(session, ids, true())


async def ended_replica_ids(session: AsyncSession, ids: Iterable[str]) -> set[str]:
    """Of those whose rows say that nothing is left of them to hold memory, a port or a GPU."""
    return await _ids_of_those(session, ids, ReplicaRow.state.not_in(HOLDS_RESOURCES))


async def _ids_of_those(
    session: AsyncSession, ids: Iterable[str], condition: ColumnElement[bool]
) -> set[str]:
    found: set[str] = set()
    for some in batches(sorted(ids)):
        query = select(ReplicaRow.id).where(ReplicaRow.id.in_(some), condition)
        found.update((await session.execute(query)).scalars())
    return found


def batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """A statement takes at most 32,767 values."""
    for first in range(0, len(ids), _IDS_PER_STATEMENT):
        yield ids[first : first + _IDS_PER_STATEMENT]


async def _move(session: AsyncSession, transition: Transition, probes: Sequence[ProbeRun]) -> None:
    values: dict[str, Any] = {"state": transition.to}
    time_column = _TIME_OF_STATE.get(transition.to)
    if time_column is not None:
        values[time_column] = func.now()
    if transition.observed is not None:
        values |= _seen_in_engine(transition.observed)
        await note_machine(session, transition.replica_id, transition.observed.node)
    if transition.verdict is not None:
        values |= {
            "reason": transition.verdict.reason,
            "message": transition.verdict.message,
            "fix": transition.verdict.fix and transition.verdict.fix.to_json(),
            "ended_badly": True,
            "probe_history": [run.to_json() for run in probes],
        }
    await session.execute(
        _REPLICA_TABLE.update().where(_REPLICA_TABLE.c.id == transition.replica_id).values(values)
    )


async def _keep_starting(session: AsyncSession, transition: Transition) -> None:
    """It answers, and yet no gateway hears of it."""
    if transition.observed is None:
        return
    values = {"state": ReplicaState.STARTING, "started_at": func.now()} | _seen_in_engine(transition.observed)
    await note_machine(session, transition.replica_id, transition.observed.node)
    await session.execute(
        _REPLICA_TABLE.update().where(_REPLICA_TABLE.c.id == transition.replica_id).values(values)
    )


async def note_machine(session: AsyncSession, replica_id: str, node: str | None) -> None:
    """Where its engine put it, if that is another machine than was guessed. What it holds counts there from now on; its
    GPUs have numbers there that nobody else has."""
    if node is None:
        return
    row = (await session.execute(select(ReplicaRow).where(ReplicaRow.id == replica_id))).scalar_one()
    if row.node == node:
        return
    machine = (NodeRow.engine == row.engine) & (NodeRow.name == node)
    found = (await session.execute(select(NodeRow.engine_identity, NodeRow.gpus).where(machine))).first()
    taken = select(func.unnest(ReplicaRow.gpu_device_ids)).where(
        ReplicaRow.engine == row.engine, ReplicaRow.node == node, ReplicaRow.state.in_(HOLDS_RESOURCES)
    )
    held = set((await session.execute(taken)).scalars()) if row.gpu_device_ids else set()
    devices = [str(gpu["device_id"]) for gpu in (found.gpus if found is not None else ())]
    free = [device for device in devices if device not in held][: len(row.gpu_device_ids)]
    moved = update(ReplicaRow).where(ReplicaRow.id == replica_id)
    await session.execute(
        moved.values(
            node=node,
            engine_identity=found.engine_identity if found is not None else None,
            gpu_device_ids=free,
        ).execution_options(synchronize_session=False)
    )


def _seen_in_engine(observed: ObservedReplica) -> dict[str, Any]:
    """Its times are of the machine's clock, which may be wrong by hours: they stay between what the database knows of the replica and
    now. An end in the future would keep its slot empty until then."""
    row = _REPLICA_TABLE.c
    seen: dict[str, Any] = {"engine_id": observed.engine_id, "host": observed.host}
    # Where we allocated its port it is that one, whatever an engine says.
    seen["host_port"] = func.coalesce(row.host_port, observed.host_port)
    seen["has_door"] = observed.has_door
    if observed.started_at is not None:
        began_by = func.least(observed.started_at, row.ready_at, func.now())
        seen["started_at"] = func.greatest(began_by, row.created_at)
    if observed.ended_at is not None:
        alive_at = func.greatest(observed.ended_at, row.created_at, row.ready_at, row.routed_at)
        seen |= {"ended_at": func.least(alive_at, func.now()), "exit_code": observed.exit_code}
    return seen


async def _write_container(session: AsyncSession, loaded: Loaded, plan: Plan, values: dict[str, Any]) -> bool:
    row = loaded.container
    columns = _CONTAINER_TABLE.c
    verdict = plan.verdict
    told: dict[str, Any] = {
        "state": plan.state,
        "reason": verdict.reason if verdict else None,
        "message": verdict.message if verdict else None,
    }
    values |= {
        "failed_passes": 0,
        "reconcile_at": _next_pass(row, plan),
        "next_look_at": _planned(plan),
        "watched_since": loaded.watched_since,
    }
    routed = [
        transition.replica_id for transition in plan.transitions if transition.to is ReplicaState.ROUTED
    ]
    newest_routed = max(
        (replica.generation for replica in loaded.replicas if replica.id in routed), default=0
    )
    if newest_routed > row.serving_generation:
        # Of an earlier one it is not known any more, once the image of this one was found.
        known = row.image_generation <= newest_routed
        values |= {
            "serving_generation": newest_routed,
            "serving_image": image_of(row) if known else None,
        }
    coming_back = plan.state is ContainerState.STARTING and row.serving_generation == row.generation
    # While its engine fails or its replicas are in doubt, no time runs against it.
    counts = coming_back and not plan.in_doubt and plan.verdict != ENGINE_SILENT
    told["unready_since"] = (row.unready_since or loaded.now) if counts else None
    if plan.failed and verdict is not None:
        values |= {
            "failed_generation": row.generation,
            "failure_reason": verdict.reason,
            "failure_message": verdict.message,
            "failure_fix": verdict.fix and verdict.fix.to_json(),
        }
    if plan.gone:
        values |= {"deleted_at": func.now(), "reconcile_at": None}
    if plan.awake:
        told["woken_at"] = None
    if plan.state != row.state:
        told["state_since"] = func.now()
    written = (
        _CONTAINER_TABLE.update().where(columns.id == row.id).values(values | _where_as_asked(row, told))
    )
    answer: list[ColumnElement[Any]] = [columns[name] for name in _ASKED]
    if (
        plan.gone
        or plan.awake
        or any(transition.to not in _UNSEEN_BY_GATEWAYS for transition in plan.transitions)
    ):
        # Told with the change itself: a deployment waits for it.
        answer.append(func.pg_notify(ROUTES, row.id))
    asked = (await session.execute(written.returning(*answer))).one()[: len(_ASKED)]
    as_asked = tuple(asked) == tuple(getattr(row, name) for name in _ASKED)
    if as_asked and plan.state != row.state:
        _record_state(session, row, plan)
    return as_asked


def _where_as_asked(row: ContainerRow, told: Mapping[str, Any]) -> dict[str, Any]:
    """Whoever asked for something else during this pass was told another state since, on which what may be asked for next
    depends: that one stays, and the pass that follows at once says what came of it."""
    columns = _CONTAINER_TABLE.c
    as_asked = and_(*(columns[name] == getattr(row, name) for name in _ASKED))
    return {
        name: case((as_asked, _as_sql(value, columns[name])), else_=columns[name])
        for name, value in told.items()
    }


def _as_sql(value: Any, column: ColumnElement[Any]) -> ColumnElement[Any]:
    return value if isinstance(value, ColumnElement) else literal(value, column.type)


def _next_pass(row: ContainerRow, plan: Plan) -> Any:
    # A change that arrived during this pass wants one of its own.
    same = (ContainerRow.changes == row.changes) & (ContainerRow.desired_replicas == row.desired_replicas)
    return case((same, _planned(plan)), else_=func.now())


def _planned(plan: Plan) -> Any:
    if plan.look_again_in_s is None:
        return None
    return func.clock_timestamp() + timedelta(seconds=plan.look_again_in_s)


def _record_state(session: AsyncSession, row: ContainerRow, plan: Plan) -> None:
    record_activity(
        session,
        project_id=row.project_id,
        container_id=row.id,
        actor=SYSTEM,
        kind="container.state",
        reason=plan.verdict.reason if plan.verdict else None,
        message=plan.verdict.message if plan.verdict else None,
        details={"from": row.state, "to": plan.state, "generation": row.generation},
    )

"""The containers reconciler's SQL: what a pass reads, and what it writes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, bindparam, case, func, select, text, true, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.capacity import InstanceType
from moorage.catalog.models import InstanceTypeRow
from moorage.catalog.repository import find_instance_type
from moorage.containers.activity import SYSTEM, record_activity
from moorage.containers.channels import ROUTES
from moorage.containers.models import ContainerRow, ReplicaRouteRow, ReplicaRow
from moorage.containers.plan import ENGINE_SILENT, Plan, Transition
from moorage.containers.probe_history import ProbeRun
from moorage.containers.replica_limits.approval import awaiting, refused
from moorage.containers.replica_limits.repository import newest_request_of
from moorage.containers.spec import ContainerSettings
from moorage.containers.start_limit import NOT_ITS_FAULT, WINDOW
from moorage.containers.states import ContainerState, DesiredState, Reason, ReplicaState
from moorage.containers.verdict import Fix, Probe, ProbeFailure, Verdict
from moorage.engines.base import ObservedReplica
from moorage.kit.database import table_of
from moorage.kit.errors import EngineError
from moorage.ledger.hours_repository import hours_from_json, usable_hours
from moorage.ledger.repository import available_credit
from moorage.ledger.rules import Hour
from moorage.ledger.spending_repository import spendable_credit
from moorage.organizations.models import OrganizationRow, ProjectRow

RECENT = timedelta(minutes=10)
_IDS_PER_STATEMENT = 1000
_CONTAINER_TABLE, _REPLICA_TABLE = table_of(ContainerRow), table_of(ReplicaRow)
_UNSEEN_BY_GATEWAYS = (ReplicaState.STARTING, ReplicaState.ROUTED)
"""Moves to these change nothing in what a gateway should hold."""
_TIME_OF_STATE = {
    ReplicaState.STARTING: "started_at",
    ReplicaState.READY: "ready_at",
    ReplicaState.ROUTED: "routed_at",
    ReplicaState.DRAINING: "draining_at",
    ReplicaState.STOPPED: "ended_at",
}


@dataclass(frozen=True)
class RouteFacts:
    """What all gateways together say about one replica."""

    taking_requests: bool
    in_flight: int
    failing_since: datetime | None = None
    """Since when it fails its health checks at every gateway that sends it requests, and answers nothing else."""
    failing: Probe | None = None


NO_ROUTE = RouteFacts(taking_requests=False, in_flight=0)


@dataclass(frozen=True)
class Failure:
    slot: int
    ended_at: datetime
    verdict: Verdict


@dataclass(frozen=True)
class Disk:
    replica_id: str
    container_id: str
    engine_id: str
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


@dataclass(frozen=True)
class Loaded:
    container: ContainerRow
    organization_id: str
    suspended: bool
    """Its organization is; then nothing of it runs, whatever its row asks for."""
    instance_type: InstanceType
    replicas: Sequence[ReplicaRow]
    routes: dict[str, RouteFacts]
    failures: Sequence[Failure]
    """Of this generation, oldest first."""
    failed_starts: Sequence[tuple[int, datetime]]
    """(slot, when) of the last hour and any generation: those that never became ready."""
    approval: Verdict | None
    now: datetime
    hours: tuple[Hour, ...]
    """Held, or paid and not over."""
    available_microusd: int
    """What its organization has."""
    spendable_microusd: int
    """Of that, what the spending limits leave for it."""

    @property
    def desired_state(self) -> DesiredState:
        wanted = DesiredState(self.container.desired_state)
        return DesiredState.STOPPED if self.suspended and wanted is DesiredState.RUNNING else wanted

    @property
    def stop_reason(self) -> str | None:
        held_back = self.desired_state != self.container.desired_state
        return Reason.SUSPENDED if held_back else self.container.stop_reason


# Made once: to put together statements of this size takes longer than Postgres needs to answer them.
_SOONEST = (
    select(ContainerRow.id, func.extract("epoch", ContainerRow.reconcile_at - func.clock_timestamp()))
    .where(ContainerRow.reconcile_at.is_not(None))
    .order_by(ContainerRow.reconcile_at)
    .limit(bindparam("limit"))
)
# One that failed its health check for good has failed from then on, not only once it has ended.
_failed_at = func.coalesce(ReplicaRow.ended_at, ReplicaRow.draining_at)
_FAILED_LATELY = (
    select(ReplicaRow, _failed_at)
    .where(
        ReplicaRow.container_id == bindparam("id"), ReplicaRow.ended_badly, _failed_at > func.now() - WINDOW
    )
    .order_by(_failed_at)
)
_CONTAINER = (
    select(
        ContainerRow,
        OrganizationRow.id,
        OrganizationRow.suspended_at.is_not(None),
        func.clock_timestamp(),
        ProjectRow.replica_limit,
        usable_hours(ContainerRow.id),
        available_credit(ProjectRow.organization_id),
        spendable_credit(ProjectRow.organization_id, ProjectRow.id),
        _FAILED_LATELY.exists(),
        InstanceTypeRow,
    )
    .join(ProjectRow, ProjectRow.id == ContainerRow.project_id)
    .join(OrganizationRow, OrganizationRow.id == ProjectRow.organization_id)
    .join(InstanceTypeRow, InstanceTypeRow.name == ContainerRow.instance_type)
    .where(ContainerRow.id == bindparam("id"), ContainerRow.deleted_at.is_(None))
)
_said = (
    select(
        func.bool_or(~ReplicaRouteRow.draining),
        func.sum(ReplicaRouteRow.in_flight),
        func.max(ReplicaRouteRow.failing_since),
        func.bool_and(ReplicaRouteRow.failure.is_not(None) | ReplicaRouteRow.draining),
        func.max(ReplicaRouteRow.failure),
        func.max(ReplicaRouteRow.failure_status),
    )
    .where(ReplicaRouteRow.replica_id == ReplicaRow.id)
    .lateral()
)
_REPLICAS = (
    select(ReplicaRow, _said)
    .join(_said, true())
    .where(ReplicaRow.container_id == bindparam("id"), ReplicaRow.state != ReplicaState.REMOVED)
    .order_by(ReplicaRow.slot, ReplicaRow.created_at)
)


async def due_containers(session: AsyncSession, limit: int) -> tuple[list[str], float | None]:
    # One more than asked for: the first that is not due yet says how long to wait.
    soonest = (await session.execute(_SOONEST, {"limit": limit + 1})).all()
    keys = [key for key, in_s in soonest if in_s <= 0]
    return keys[:limit], next((float(in_s) for _, in_s in soonest if in_s > 0), None)


async def load(session: AsyncSession, container_id: str) -> Loaded | None:
    """The container's row comes first: whatever changes while the rest is read also changes its `changes`, and
    then this pass is followed by another."""
    found = (await session.execute(_CONTAINER, {"id": container_id})).one_or_none()
    if found is None:
        return None
    container, organization_id, suspended, now, replica_limit, hours, available, spendable, failed, _ = found
    # Already in the session, so this asks nobody.
    instance_type = await find_instance_type(session, container.instance_type)
    assert instance_type is not None, "a foreign key says so"
    replicas, routes = await _replicas(session, container_id)
    # Before its image is known, a deployment has started nothing that could have failed.
    failed = failed and container.image_generation == container.generation
    failures, failed_starts = await _failures(session, container, now) if failed else ([], [])
    return Loaded(
        container=container,
        organization_id=organization_id,
        suspended=suspended,
        instance_type=instance_type,
        replicas=replicas,
        routes=routes,
        failures=failures,
        failed_starts=failed_starts,
        approval=await _approval(session, container, replica_limit),
        now=now,
        hours=hours_from_json(hours),
        available_microusd=available,
        spendable_microusd=spendable,
    )


async def apply_plan(
    session: AsyncSession,
    loaded: Loaded,
    plan: Plan,
    progress: dict[str, Any] | None,
    image: FoundImage | Verdict | None,
    probes: Mapping[str, Sequence[ProbeRun]],
) -> bool:
    """Write what the plan says about rows, and the image that this pass found. Whether nobody asked for anything
    since the pass began."""
    for transition in plan.transitions:
        await _move(session, transition, probes.get(transition.replica_id, ()))
    if plan.release_ports:
        released = update(ReplicaRow).where(
            ReplicaRow.id.in_(plan.release_ports), ReplicaRow.port_released_at.is_(None)
        )
        await session.execute(released.values(port_released_at=func.now()))
    values = image_columns(loaded.container, image) if image is not None else {}
    changes = await _write_container(session, loaded, plan, values | {"progress": progress})
    return changes == loaded.container.changes


async def record_image(session: AsyncSession, container: ContainerRow, found: FoundImage | Verdict) -> None:
    same_deployment = (ContainerRow.id == container.id) & (ContainerRow.generation == container.generation)
    await session.execute(update(ContainerRow).where(same_deployment).values(image_columns(container, found)))


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


async def replicas_by_engine_presence(session: AsyncSession) -> list[Row[tuple[str, str, str]]]:
    """(replica, container, state) of everything that should be known to an engine."""
    query = select(ReplicaRow.id, ReplicaRow.container_id, ReplicaRow.state)
    return list(await session.execute(query.where(ReplicaRow.state != ReplicaState.REMOVED)))


async def list_disks(session: AsyncSession) -> list[Disk]:
    """Of all that have files yet."""
    ended = ReplicaRow.state.in_((ReplicaState.STOPPED, ReplicaState.COLLECTED))
    query = (
        select(
            ReplicaRow.id,
            ReplicaRow.container_id,
            func.coalesce(ReplicaRow.engine_id, ""),
            InstanceTypeRow.disk_bytes,
            ended,
        )
        .join(InstanceTypeRow, InstanceTypeRow.name == ReplicaRow.instance_type)
        .where(ReplicaRow.state != ReplicaState.REMOVED, ReplicaRow.engine_id.is_not(None))
    )
    return [Disk(*row) for row in await session.execute(query)]


async def known_replica_ids(session: AsyncSession, ids: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for some in batches(sorted(ids)):
        query = select(ReplicaRow.id).where(ReplicaRow.id.in_(some))
        found.update((await session.execute(query)).scalars())
    return found


def batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """A statement takes at most 32,767 values."""
    for first in range(0, len(ids), _IDS_PER_STATEMENT):
        yield ids[first : first + _IDS_PER_STATEMENT]


async def _replicas(
    session: AsyncSession, container_id: str
) -> tuple[list[ReplicaRow], dict[str, RouteFacts]]:
    """Those that are not removed, and what the gateways say about them."""
    rows, routes = [], {}
    for row, taking, in_flight, since, failing, failure, status in await session.execute(
        _REPLICAS, {"id": container_id}
    ):
        rows.append(row)
        if taking is not None:
            probe = Probe(ProbeFailure(failure), status) if failing and failure is not None else None
            routes[row.id] = RouteFacts(taking, int(in_flight), since if failing else None, probe)
    return rows, routes


async def _approval(session: AsyncSession, container: ContainerRow, limit: int) -> Verdict | None:
    replicas = ContainerSettings.from_json(container.settings).max_replicas
    if replicas <= limit:
        return None
    newest = await newest_request_of(session, container.id)
    if newest is not None and newest.state == "refused":
        return refused(newest.replicas, limit, newest.answer)
    return awaiting(replicas, limit)


async def _failures(
    session: AsyncSession, container: ContainerRow, now: datetime
) -> tuple[list[Failure], list[tuple[int, datetime]]]:
    """What of this generation ended badly in the last minutes, and what of any failed to start in the last hour."""
    found = await session.execute(_FAILED_LATELY, {"id": container.id})
    ended = [(row, at) for row, at in found if row.reason is not None]
    recent = [
        Failure(row.slot, at, Verdict(Reason(row.reason or ""), row.message or "", Fix.from_json(row.fix)))
        for row, at in ended
        if row.generation == container.generation and at > now - RECENT
    ]
    starts = [(row.slot, at) for row, at in ended if row.ready_at is None and row.reason not in NOT_ITS_FAULT]
    return recent, starts


async def _move(session: AsyncSession, transition: Transition, probes: Sequence[ProbeRun]) -> None:
    values: dict[str, Any] = {"state": transition.to}
    time_column = _TIME_OF_STATE.get(transition.to)
    if time_column is not None:
        values[time_column] = func.now()
    if transition.observed is not None:
        values |= _seen_in_engine(transition.observed)
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


def _seen_in_engine(observed: ObservedReplica) -> dict[str, Any]:
    seen: dict[str, Any] = {"engine_id": observed.engine_id, "host": observed.host}
    if observed.started_at is not None:
        seen["started_at"] = observed.started_at
    if observed.ended_at is not None:
        seen |= {"ended_at": observed.ended_at, "exit_code": observed.exit_code}
    return seen


async def _write_container(session: AsyncSession, loaded: Loaded, plan: Plan, values: dict[str, Any]) -> int:
    row = loaded.container
    verdict = plan.verdict
    values |= {
        "state": plan.state,
        "reason": verdict.reason if verdict else None,
        "message": verdict.message if verdict else None,
        "failed_passes": 0,
        "reconcile_at": _next_pass(row, plan),
    }
    routed = [
        transition.replica_id for transition in plan.transitions if transition.to is ReplicaState.ROUTED
    ]
    newest_routed = max(
        (replica.generation for replica in loaded.replicas if replica.id in routed), default=0
    )
    if newest_routed > row.serving_generation:
        values["serving_generation"] = newest_routed
    if plan.state is ContainerState.STARTING and row.serving_generation == row.generation:
        values["unready_since"] = row.unready_since or loaded.now
    else:
        values["unready_since"] = None
    if plan.failed and verdict is not None:
        values |= {
            "failed_generation": row.generation,
            "failure_reason": verdict.reason,
            "failure_message": verdict.message,
            "failure_fix": verdict.fix and verdict.fix.to_json(),
        }
    if plan.gone:
        values |= {"deleted_at": func.now(), "reconcile_at": None}
    if plan.state != row.state:
        values["state_since"] = func.now()
        _record_state(session, row, plan)
    written = _CONTAINER_TABLE.update().where(_CONTAINER_TABLE.c.id == row.id).values(values)
    answer: list[ColumnElement[Any]] = [_CONTAINER_TABLE.c.changes]
    if any(transition.to not in _UNSEEN_BY_GATEWAYS for transition in plan.transitions):
        # Told with the change itself: a deployment waits for it.
        answer.append(func.pg_notify(ROUTES, row.id))
    return int((await session.execute(written.returning(*answer))).one()[0])


def _next_pass(row: ContainerRow, plan: Plan) -> Any:
    planned = (
        None
        if plan.look_again_in_s is None
        else func.clock_timestamp() + timedelta(seconds=plan.look_again_in_s)
    )
    # A change that arrived during this pass wants one of its own.
    return case((ContainerRow.changes == row.changes, planned), else_=func.now())


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

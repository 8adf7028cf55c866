"""The containers reconciler's SQL: what is due, what a pass writes, and what the sweeps look at."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Row, bindparam, case, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.models import InstanceTypeRow
from moorage.containers.activity import SYSTEM, record_activity
from moorage.containers.channels import ROUTES
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.probe_history import ProbeRun
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.states import ContainerState, ReplicaState
from moorage.containers.verdict import Verdict
from moorage.containers.views import ENGINE_SILENT, Plan, Transition
from moorage.engines.base import ObservedReplica
from moorage.kit.database import table_of
from moorage.kit.errors import EngineError

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


# Made once: asked after every change.
_SOONEST = (
    select(ContainerRow.id, func.extract("epoch", ContainerRow.reconcile_at - func.clock_timestamp()))
    .where(ContainerRow.reconcile_at.is_not(None))
    .order_by(ContainerRow.reconcile_at)
    .limit(bindparam("limit"))
)


async def due_containers(session: AsyncSession, limit: int) -> tuple[list[str], float | None]:
    # One more than asked for: the first that is not due yet says how long to wait.
    soonest = (await session.execute(_SOONEST, {"limit": limit + 1})).all()
    keys = [key for key, in_s in soonest if in_s <= 0]
    return keys[:limit], next((float(in_s) for _, in_s in soonest if in_s > 0), None)


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


async def forget_image(session: AsyncSession, container: ContainerRow) -> None:
    """It vanished from the engine. Unless another is known by now, the next pass has it fetched again."""
    same_image = (
        (ContainerRow.id == container.id)
        & (ContainerRow.image_generation == container.generation)
        & (ContainerRow.image_ref == container.image_ref)
    )
    forgotten = {"image_generation": 0, "image_lost_generation": container.generation}
    await session.execute(update(ContainerRow).where(same_image).values(forgotten))


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

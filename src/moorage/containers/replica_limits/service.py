"""More replicas than a project's limit: asked for by whoever deploys, granted or refused by the operator.

A container over the limit waits as `awaiting_approval`. The reconciler reads the limit and the newest request, so a
decision needs nothing but its row: what was granted starts by itself, what was refused fails with the answer.
"""

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.activity import record_action, record_activity
from moorage.containers.models import ContainerRow
from moorage.containers.replica_limits import repository
from moorage.containers.replica_limits.approval import awaiting, scaling_waits
from moorage.containers.replica_limits.models import ReplicaLimitRequestRow
from moorage.containers.repository import lock_container, mark_due
from moorage.containers.scaling import put_scaling
from moorage.containers.spec import MAX_REPLICAS, ContainerSettings
from moorage.containers.states import DesiredState
from moorage.containers.verdict import Verdict
from moorage.identity.actor import Actor
from moorage.kit.clock import Clock
from moorage.kit.errors import ConflictError, NotFoundError
from moorage.kit.ids import new_replica_limit_request_id
from moorage.organizations.caps import LIMIT_REQUESTS, require_room
from moorage.organizations.models import ProjectRow
from moorage.organizations.repository import hold_project

MOST_WAITING = 20
"""Of a project, made ahead: the operator reads each. Of a container one waits at most."""
Found = tuple[ReplicaLimitRequestRow, ProjectRow]


async def ask_where_needed(session: AsyncSession, actor: Actor, row: ContainerRow) -> None:
    """A request for a container that is to start with more replicas than its project may have, unless one is open."""
    replicas = ContainerSettings.from_json(row.settings).max_replicas
    # The smallest limit that a project can have; most containers need no question.
    limit = (
        MAX_REPLICAS if replicas <= MAX_REPLICAS else await repository.replica_limit(session, row.project_id)
    )
    if replicas <= limit:
        return
    verdict = awaiting(replicas, limit)
    row.reason, row.message = verdict.reason, verdict.message
    newest = await repository.newest_request_of(session, row.id)
    if newest is None or newest.state != "pending":
        _add(session, actor, row.project_id, row, replicas, None)
    elif newest.replicas != replicas:
        newest.replicas = replicas


async def ask_to_scale(
    session: AsyncSession, actor: Actor, row: ContainerRow, after: ContainerSettings, sent: dict[str, int]
) -> Verdict | None:
    """What a container that runs has to wait for before it may scale so far; None if it may. Unlike one that is to
    start, it goes on as it is: what was sent is laid over its settings when the operator allows it."""
    limit = await repository.replica_limit(session, row.project_id)
    within = ContainerSettings.from_json(row.settings).max_replicas <= limit
    if after.max_replicas <= limit or not within or row.desired_state != DesiredState.RUNNING:
        return None
    newest = await repository.newest_request_of(session, row.id)
    if newest is None or newest.state != "pending":
        newest = _add(session, actor, row.project_id, row, after.max_replicas, None)
    newest.replicas, newest.scaling = after.max_replicas, sent
    return scaling_waits(after.max_replicas, limit)


async def withdraw_request(session: AsyncSession, actor: Actor, row: ContainerRow) -> None:
    """Somebody chose anew, or the container goes: what it waited for is not wanted any more, so that an approval which
    comes later does not bring it back."""
    newest = await repository.newest_request_of(session, row.id)
    if newest is None or newest.state != "pending":
        return
    most = ContainerSettings.from_json(row.settings).max_replicas
    if newest.scaling is None and newest.replicas == most and row.desired_state != DesiredState.DELETED:
        return  # It waits to start with just that many.
    newest.state, newest.decided_by, newest.decided_at = "withdrawn", actor.id, func.now()
    await session.flush()  # Before another is asked for: one at a time is open.
    record_action(session, row, actor.id, "replica_limit.withdrawn", {"replicas": newest.replicas})


async def withdraw_requests_of_project(session: AsyncSession, actor: Actor, project_id: str) -> None:
    """The project goes: those that were made ahead, and that no container withdraws. Nothing new comes while it is held."""
    for row in await repository.lock_pending(session, project_id):
        row.state, row.decided_by, row.decided_at = "withdrawn", actor.id, func.now()
        container = await _container_of(session, row)
        _record(session, actor, project_id, container, "replica_limit.withdrawn", {"replicas": row.replicas})
    await session.flush()


async def find_request(session: AsyncSession, request_id: str) -> Found:
    """Locked, because it can be decided once; its project and its container before it, as everybody does."""
    container_id = await repository.lock_project_of(session, request_id)
    if container_id is not None:
        await lock_container(session, container_id)
    found = await repository.lock_request(session, request_id)
    if found is None:
        raise NotFoundError("There is no such request.")
    return found


async def request_limit(
    session: AsyncSession, actor: Actor, project: ProjectRow, replicas: int, note: str | None
) -> ReplicaLimitRequestRow:
    if replicas <= project.replica_limit:
        raise ConflictError(
            f"A container of this project may already have {project.replica_limit} replicas.",
            code="replica_limit_suffices",
        )
    await require_room(session, LIMIT_REQUESTS, project.id, repository.count_made_ahead, MOST_WAITING)
    if await hold_project(session, project.id) is None:
        raise NotFoundError("There is no such project.")
    row = _add(session, actor, project.id, None, replicas, note)
    await session.flush()
    await session.refresh(row)
    return row


async def decide(
    session: AsyncSession, actor: Actor, found: Found, *, approve: bool, answer: str | None, clock: Clock
) -> Found:
    row, project = found
    if row.state != "pending":
        raise ConflictError(f"This request was already {row.state}.", code="already_decided")
    row.state = "approved" if approve else "refused"
    row.decided_at, row.decided_by, row.answer = clock.now(), actor.id, answer
    if approve:
        project.replica_limit = max(project.replica_limit, row.replicas)
        await _scale(session, actor, row)
    details = {"replicas": row.replicas, "limit": project.replica_limit}
    container = await _container_of(session, row)
    _record(session, actor, project.id, container, f"replica_limit.{row.state}", details, message=answer)
    await session.flush()
    await mark_due(session, await repository.waiting_containers(session, project.id))
    return row, project


async def _scale(session: AsyncSession, actor: Actor, request: ReplicaLimitRequestRow) -> None:
    """What a container that runs was waiting for."""
    if request.container_id is None or request.scaling is None:
        return
    row = await lock_container(session, request.container_id)
    if row.desired_state == DesiredState.DELETED:
        return
    put_scaling(row, request.scaling)
    record_action(session, row, actor.id, "container.scale", request.scaling)


def _add(
    session: AsyncSession,
    actor: Actor,
    project_id: str,
    container: ContainerRow | None,
    replicas: int,
    note: str | None,
) -> ReplicaLimitRequestRow:
    row = ReplicaLimitRequestRow(
        id=new_replica_limit_request_id(),
        project_id=project_id,
        container_id=container.id if container is not None else None,
        replicas=replicas,
        note=note,
        state="pending",
        requested_by=actor.id,
    )
    session.add(row)
    _record(session, actor, project_id, container, "replica_limit.requested", {"replicas": replicas})
    return row


async def _container_of(session: AsyncSession, request: ReplicaLimitRequestRow) -> ContainerRow | None:
    return None if request.container_id is None else await session.get(ContainerRow, request.container_id)


def _record(
    session: AsyncSession,
    actor: Actor,
    project_id: str,
    container: ContainerRow | None,
    kind: str,
    details: dict[str, int],
    *,
    message: str | None = None,
) -> None:
    """A request made ahead is about no container."""
    if container is not None:
        record_action(session, container, actor.id, kind, details, message=message)
        return
    record_activity(
        session,
        project_id=project_id,
        container_id=None,
        actor=actor.id,
        kind=kind,
        message=message,
        details=dict(details),
    )

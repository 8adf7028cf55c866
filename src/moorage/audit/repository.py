"""SQL of the audit log: an organization's records, and what people and keys did to its containers, newest first.

Nothing is stored for it: what was done to a container is in its activities, which stay when the container and its project
are deleted.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, cast, func, null, select, true, tuple_, union_all
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import String

from moorage.containers.models import ACTIONS, ActivityRow, ContainerRow
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.identity.users.models import UserRow
from moorage.kit.pagination import PageRequest
from moorage.organizations.audit.models import AuditRecordRow
from moorage.organizations.models import ProjectRow


@dataclass(frozen=True)
class Record:
    id: str
    at: datetime
    actor: str
    actor_email: str | None
    """Where it was a person."""
    actor_name: str | None
    """Where it was a key."""
    action: str
    target: str
    details: dict[str, Any]


async def list_audit(session: AsyncSession, organization_id: str | None, page: PageRequest) -> list[Record]:
    """Of an organization, also of its deleted projects; None: of the installation itself, which has no containers."""
    records = _records(organization_id, page)
    if organization_id is not None:
        records = select(
            union_all(
                select(records.subquery()), select(_actions(organization_id, page).subquery())
            ).subquery()
        )
    every = records.subquery()
    newest = select(every).order_by(every.c.at.desc(), every.c.id.desc()).limit(page.limit + 1).subquery()
    query = (
        select(
            newest,
            UserRow.email.label("actor_email"),
            ApiKeyRow.name.label("actor_name"),
            ProjectRow.name.label("project_name"),
            ContainerRow.name.label("container_name"),
        )
        # Of the page alone: an organization may have a page of each of hundreds of projects.
        .outerjoin(ProjectRow, ProjectRow.id == newest.c.project_id)
        .outerjoin(ContainerRow, ContainerRow.id == newest.c.container_id)
        .outerjoin(UserRow, UserRow.id == newest.c.actor)
        .outerjoin(ApiKeyRow, ApiKeyRow.id == newest.c.actor)
        .order_by(newest.c.at.desc(), newest.c.id.desc())
    )
    return [
        Record(
            id=row.id,
            at=row.at,
            actor=row.actor,
            actor_email=row.actor_email,
            actor_name=row.actor_name,
            action=row.action,
            target=row.target,
            details=row.details if row.project_id is None else _details_of_action(row),
        )
        for row in await session.execute(query)
    ]


def _details_of_action(row: Any) -> dict[str, Any]:
    """With the names of what may be gone. An activity of an earlier version does not say what the container was called;
    then it is what the container was called last."""
    details = {"name": row.container_name, **row.details, "message": row.message}
    known = {name: value for name, value in details.items() if value is not None}
    return {**known, "project_id": row.project_id, "project_name": row.project_name}


def _records(organization_id: str | None, page: PageRequest) -> Select[Any]:
    row, nothing = AuditRecordRow, cast(null(), String)
    query = select(
        row.id,
        row.at,
        row.actor,
        row.action,
        row.target,
        row.details,
        nothing.label("message"),
        nothing.label("project_id"),
        nothing.label("container_id"),
    )
    return _newest(query.where(row.organization_id == organization_id), row, page)


def _actions(organization_id: str, page: PageRequest) -> Select[Any]:
    """Project by project, so that each is read from its index and no further than the page goes."""
    of_project = select(ActivityRow).where(ActivityRow.project_id == ProjectRow.id, ACTIONS)
    actions = _newest(of_project.correlate(ProjectRow), ActivityRow, page).lateral()
    row = actions.c
    return (
        select(
            row.id,
            row.at,
            row.actor,
            row.kind.label("action"),
            func.coalesce(row.container_id, row.project_id).label("target"),
            row.details,
            row.message,
            row.project_id,
            row.container_id,
        )
        .select_from(ProjectRow)
        .join(actions, true())
        .where(ProjectRow.organization_id == organization_id)
    )


def _newest(
    query: Select[Any], row: type[AuditRecordRow] | type[ActivityRow], page: PageRequest
) -> Select[Any]:
    if page.after is not None:
        query = query.where(tuple_(row.at, row.id) < (page.after.time, page.after.id))
    return query.order_by(row.at.desc(), row.id.desc()).limit(page.limit + 1)

"""SQL of what people are told: read from the activities and the audit log, newest first."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Select, case, cast, func, null, select, tuple_, union_all, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import String

from moorage.containers.models import WORTH_TELLING, ActivityRow, ContainerRow
from moorage.inbox.told import Names, actions_for
from moorage.kit.ids import UserId
from moorage.kit.pagination import PageRequest
from moorage.machines.models import MachineRow
from moorage.organizations.audit.models import AuditRecordRow
from moorage.organizations.models import MemberRow, ProjectMemberRow, ProjectRow
from moorage.organizations.permissions import Role

TOLD_FOR = timedelta(days=30)
"""What is older is history; the activities and the audit log have it."""


@dataclass(frozen=True)
class Event:
    id: str
    at: datetime
    name: str
    message: str | None
    details: dict[str, Any]
    project_id: str | None
    container_id: str | None
    """None where it was deleted."""
    names: Names
    unread: bool


async def list_events(
    session: AsyncSession, organization_id: str, user_id: UserId, role: Role, page: PageRequest
) -> list[Event]:
    """Of those projects that they see; not what they did themselves."""
    of_projects = _part(_of_projects(organization_id, user_id, role), ActivityRow, user_id, page)
    of_organization = _part(_of_organization(organization_id, role), AuditRecordRow, user_id, page)
    told = union_all(select(of_projects.subquery()), select(of_organization.subquery())).subquery()
    read_until = (
        select(func.coalesce(MemberRow.notifications_read_until, MemberRow.joined_at))
        .where(MemberRow.organization_id == organization_id, MemberRow.user_id == user_id)
        .scalar_subquery()
    )
    newest_first = select(told, (told.c.at > read_until).label("unread")).order_by(
        told.c.at.desc(), told.c.id.desc()
    )
    rows = await session.execute(newest_first.limit(page.limit + 1))
    return [
        Event(
            id=row.id,
            at=row.at,
            name=row.name,
            message=row.message,
            details=row.details,
            project_id=row.project_id,
            container_id=row.container_id,
            names=Names(project=row.project_name, container=row.container_name, machine=row.machine_name),
            unread=row.unread,
        )
        for row in rows
    ]


async def read_until(session: AsyncSession, organization_id: str, user_id: UserId, until: datetime) -> None:
    """Never back, and never beyond now: what is still to come is unread."""
    row = MemberRow
    seen = func.greatest(row.notifications_read_until, func.least(until, func.now()))
    member = (row.organization_id == organization_id) & (row.user_id == user_id)
    await session.execute(update(row).where(member).values(notifications_read_until=seen))


def _of_projects(organization_id: str, user_id: UserId, role: Role) -> Select[Any]:
    row, is_there = ActivityRow, ContainerRow.deleted_at.is_(None)
    query = (
        select(
            row.id,
            row.at,
            row.kind.label("name"),
            row.message,
            row.details,
            row.project_id,
            case((is_there, ContainerRow.id)).label("container_id"),
            ProjectRow.name.label("project_name"),
            ContainerRow.name.label("container_name"),
            cast(null(), String).label("machine_name"),
        )
        .join(ProjectRow, ProjectRow.id == row.project_id)
        .outerjoin(ContainerRow, ContainerRow.id == row.container_id)
        .where(ProjectRow.organization_id == organization_id, ProjectRow.deleted_at.is_(None), WORTH_TELLING)
    )
    if role is Role.ADMIN:
        return query
    joined = select(ProjectMemberRow.project_id).where(ProjectMemberRow.user_id == user_id)
    return query.where(ProjectRow.id.in_(joined))


def _of_organization(organization_id: str, role: Role) -> Select[Any]:
    row = AuditRecordRow
    return (
        select(
            row.id,
            row.at,
            row.action.label("name"),
            cast(null(), String).label("message"),
            row.details,
            cast(null(), String).label("project_id"),
            cast(null(), String).label("container_id"),
            ProjectRow.name.label("project_name"),
            cast(null(), String).label("container_name"),
            MachineRow.name.label("machine_name"),
        )
        .outerjoin(ProjectRow, ProjectRow.id == row.target)
        .outerjoin(MachineRow, MachineRow.id == row.target)
        .where(row.organization_id == organization_id, row.action.in_(actions_for(role)))
    )


def _part(
    query: Select[Any], row: type[ActivityRow] | type[AuditRecordRow], user_id: UserId, page: PageRequest
) -> Select[Any]:
    query = query.where(row.actor != user_id, row.at > func.now() - TOLD_FOR)
    if page.after is not None:
        query = query.where(tuple_(row.at, row.id) < (page.after.time, page.after.id))
    return query.order_by(row.at.desc(), row.id.desc()).limit(page.limit + 1)

"""The organization's record of who changed what. What happens to containers is in their activity."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.users.models import UserRow
from moorage.kit.database import delete_portion
from moorage.kit.ids import new_audit_record_id
from moorage.kit.pagination import PageRequest
from moorage.organizations.audit.models import AuditRecordRow

Entry = tuple[AuditRecordRow, str | None]
"""A record, and the address of its actor where that is a person."""


def record_audit(
    session: AsyncSession,
    organization_id: str | None,
    *,
    actor: str,
    action: str,
    target: str,
    **details: Any,
) -> None:
    """In the transaction of the change itself: neither exists without the other."""
    session.add(
        AuditRecordRow(
            id=new_audit_record_id(),
            organization_id=organization_id,
            actor=actor,
            action=action,
            target=target,
            details=details,
        )
    )


async def list_audit(session: AsyncSession, organization_id: str | None, page: PageRequest) -> list[Entry]:
    query = (
        select(AuditRecordRow, UserRow.email)
        .outerjoin(UserRow, UserRow.id == AuditRecordRow.actor)
        .where(AuditRecordRow.organization_id == organization_id)
    )
    if page.after is not None:
        query = query.where(tuple_(AuditRecordRow.at, AuditRecordRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(AuditRecordRow.at.desc(), AuditRecordRow.id.desc())
    return [(row, email) for row, email in await session.execute(newest_first.limit(page.limit + 1))]


async def count_lately(
    session: AsyncSession,
    organization_id: str,
    actions: Collection[str],
    within: timedelta,
    *,
    actor: str | None = None,
    target: str | None = None,
) -> int:
    """How often that was done in the organization: by all or one, to all or one."""
    row = AuditRecordRow
    query = select(func.count()).where(
        row.organization_id == organization_id, row.at > func.now() - within, row.action.in_(actions)
    )
    if actor is not None:
        query = query.where(row.actor == actor)
    if target is not None:
        query = query.where(row.target == target)
    return (await session.execute(query)).scalar_one()


async def purge_audit(session: AsyncSession, kept: timedelta) -> int:
    return await delete_portion(session, AuditRecordRow, AuditRecordRow.at < func.now() - kept)

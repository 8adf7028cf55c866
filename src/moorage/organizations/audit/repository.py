"""The organization's record of who changed what. What people do to containers is in their activities; `moorage/audit` reads
both."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.database import delete_portion
from moorage.kit.ids import new_audit_record_id
from moorage.organizations.audit.models import AuditRecordRow


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

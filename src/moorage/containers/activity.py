"""The record of what happened to a container and who caused it."""

from typing import Any

from sqlalchemy import select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ActivityRow
from moorage.kit.ids import new_activity_id
from moorage.kit.pagination import PageRequest

SYSTEM = "system"


def record_activity(
    session: AsyncSession,
    *,
    project_id: str,
    container_id: str | None,
    actor: str,
    kind: str,
    reason: str | None = None,
    message: str | None = None,
    details: dict[str, Any] | None = None,
) -> None:
    session.add(
        ActivityRow(
            id=new_activity_id(),
            project_id=project_id,
            container_id=container_id,
            actor=actor,
            kind=kind,
            reason=reason,
            message=message,
            details=details or {},
        )
    )


async def list_activities(session: AsyncSession, container_id: str, page: PageRequest) -> list[ActivityRow]:
    query = select(ActivityRow).where(ActivityRow.container_id == container_id)
    if page.after is not None:
        query = query.where(tuple_(ActivityRow.at, ActivityRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(ActivityRow.at.desc(), ActivityRow.id.desc()).limit(page.limit + 1)
    return list((await session.execute(newest_first)).scalars())

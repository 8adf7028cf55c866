"""The record of what happened to a container and who caused it."""

from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ActivityRow
from moorage.kit.ids import new_activity_id

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

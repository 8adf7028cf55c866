"""The record of what happened to a container and who caused it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ActivityRow, ContainerRow
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


def record_action(
    session: AsyncSession,
    row: ContainerRow,
    actor: str,
    kind: str,
    details: Mapping[str, object] | None = None,
    *,
    message: str | None = None,
) -> None:
    """What a person or a key did to a container. The audit log reads it from here, also when the container has another
    name or is gone: so it says the name."""
    assert actor != SYSTEM, "what happens by itself is nobody's action"
    record_activity(
        session,
        project_id=row.project_id,
        container_id=row.id,
        actor=actor,
        kind=kind,
        message=message,
        details={**(details or {}), "name": row.name},
    )

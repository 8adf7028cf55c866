from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from moorage.identity.authentication import TheOperator
from moorage.kit.web import TheSession, TheSettings
from moorage.telemetry.logs.budget.repository import list_largest
from moorage.telemetry.operator_repository import sizes_bytes

router = APIRouter(tags=["operator"])


class ContainerLogs(BaseModel):
    container_id: str
    project_id: str | None
    """Null where the container is deleted and its lines are still kept."""
    name: str | None
    bytes: int
    lines: int
    dropped_lines: int
    """Older ones that had to go because the budget was used up."""
    since: date


class StoredLogs(BaseModel):
    stored_bytes: int
    """In the database, indexes included."""
    bytes_per_container: int
    """The budget; beyond it the oldest lines go."""
    retention_days: int
    containers: list[ContainerLogs]
    """Those with the most, first."""


@router.get("/operator/logs", summary="Show how much log is stored")
async def stored_logs(
    _: TheOperator,
    session: TheSession,
    settings: TheSettings,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> StoredLogs:
    """Returns how much container output is stored, but never the output itself."""
    largest = await list_largest(session, limit)
    return StoredLogs(
        stored_bytes=(await sizes_bytes(session))["log_lines"],
        bytes_per_container=settings.log_bytes_per_container,
        retention_days=settings.log_retention_days,
        containers=[ContainerLogs.model_validate(one, from_attributes=True) for one in largest],
    )

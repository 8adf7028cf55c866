from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from moorage.containers.access import (
    ContainerAccess,
    manageable_container,
    readable_container,
    refuse_restart,
    refuse_start,
)
from moorage.containers.drafts.schemas import ChangeRead
from moorage.containers.schemas import Container
from moorage.containers.shown import answer
from moorage.containers.states import Outcome, Strategy
from moorage.containers.update_rule import Figures
from moorage.containers.versions import repository, service
from moorage.containers.versions.models import VersionRow
from moorage.containers.versions.schemas import RollbackRequest, Version
from moorage.kit.database import database_now
from moorage.kit.pagination import MAX_PAGE_SIZE, Page
from moorage.kit.web import TheClock, TheKeyring, TheSession, TheSettings

router = APIRouter(tags=["versions"])


@router.get("/containers/{container_id}/versions", summary="List versions")
async def list_versions(
    access: Annotated[ContainerAccess, Depends(readable_container)],
    session: TheSession,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = 50,
    cursor: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
) -> Page[Version]:
    """Lists every version, newest first: who made it, what changed, what became of it and how long it served."""
    row = access.container
    found = await repository.list_versions(session, row.id, cursor, limit + 1)
    figures = await repository.read_figures(session, row.id) if row.rollout is not None else {}
    ready: dict[int, int] = {}
    if row.rollout is not None:
        both = dict.fromkeys((row.rollout["from_version"], row.rollout["version"]), 0)
        ready = both | await repository.count_routed(session, row.id)
    now = await database_now(session)
    shown = [
        _shown(one, row.version, figures.get(one.version), ready.get(one.version), now)
        for one in found[:limit]
    ]
    return Page(items=shown, next_cursor=str(shown[-1].version) if len(found) > limit else None)


@router.post("/containers/{container_id}/rollback", summary="Roll back to a version", status_code=202)
async def roll_back(
    body: RollbackRequest,
    access: Annotated[ContainerAccess, Depends(manageable_container)],
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    clock: TheClock,
    response: Response,
) -> Container:
    """Brings back a version's settings, secrets and the exact image that it ran, while the present version serves."""
    if not service.calls_off(access.container, body.version):
        await refuse_start(session, access, settings, clock)
        await refuse_restart(session, access, settings, clock)
    changed = await service.roll_back(
        session, access.actor, access.container.id, body.version, keyring=keyring
    )
    return await answer(session, changed, settings, response)


def _shown(
    one: VersionRow, present: int, figures: Figures | None, ready: int | None, now: datetime
) -> Version:
    image = one.image or {}
    return Version(
        version=one.version,
        created_at=one.created_at,
        created_by=one.created_by,
        image=service.image_name(one),
        digest=image.get("digest") or image.get("ref"),
        changes=[ChangeRead.model_validate(change) for change in one.changes],
        strategy=Strategy(one.strategy) if one.strategy is not None else None,
        outcome=Outcome(one.outcome) if one.outcome is not None else None,
        reason=one.reason,
        served_s=round(service.served_s(one, now), 3),
        can_roll_back=one.version != present and one.image is not None,
        answers=figures.answers if figures is not None else None,
        errors=figures.errors if figures is not None else None,
        response_p50_ms=figures.percentile_ms(0.5) if figures is not None else None,
        response_p95_ms=figures.percentile_ms(0.95) if figures is not None else None,
        replicas_ready=ready,
    )

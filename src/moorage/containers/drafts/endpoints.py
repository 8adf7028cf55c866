from typing import Annotated

from fastapi import APIRouter, Depends, Response

from moorage.containers.access import (
    ContainerAccess,
    manageable_container,
    readable_container,
    startable_container,
)
from moorage.containers.drafts import service
from moorage.containers.drafts.schemas import AmountChange, ChangeRead, Draft
from moorage.containers.drafts.service import Comparison
from moorage.containers.schemas import MOST_SETTINGS_BYTES, Container, SettingsPatch
from moorage.containers.shown import answer, draft_summary
from moorage.kit.web import TheKeyring, TheSession, TheSettings, takes_body

router = APIRouter(tags=["drafts"])
Readable = Annotated[ContainerAccess, Depends(readable_container)]
Manageable = Annotated[ContainerAccess, Depends(manageable_container)]


@router.get("/containers/{container_id}/draft")
async def get_draft(
    access: Readable, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> Draft:
    """What it would change, secrets masked, and what that costs."""
    return _draft(await service.compare(session, access.container, keyring=keyring, settings=settings))


@router.put("/containers/{container_id}/draft")
@takes_body(MOST_SETTINGS_BYTES)
async def save_draft(
    body: SettingsPatch, access: Manageable, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> Draft:
    """Save new settings without touching what runs; replaces the draft from before."""
    return _draft(
        await service.save_draft(
            session, access.actor, access.container.id, body, keyring=keyring, settings=settings
        )
    )


@router.delete("/containers/{container_id}/draft", status_code=204)
async def discard_draft(access: Manageable, session: TheSession) -> None:
    await service.discard_draft(session, access.actor, access.container.id)


@router.post("/containers/{container_id}/draft/apply", status_code=202)
async def apply_draft(
    access: Annotated[ContainerAccess, Depends(startable_container)],
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    response: Response,
) -> Container:
    """Stop, then start with the new settings. If they do not become healthy, those from before come back."""
    changed = await service.apply_draft(
        session, access.actor, access.container.id, keyring=keyring, settings=settings
    )
    return await answer(session, changed, settings, response)


def _draft(compared: Comparison) -> Draft:
    summary = draft_summary(compared.row)
    (before, after), (least_before, least_after) = compared.prices_per_hour_microusd, compared.least_replicas
    return Draft(
        saved_at=summary.saved_at if summary else None,
        saved_by=summary.saved_by if summary else None,
        applying=summary is not None and summary.applying,
        failure=summary.failure if summary else None,
        changes=[ChangeRead(field=one.field, before=one.before, after=one.after) for one in compared.changes],
        price_per_hour_microusd=AmountChange(before=before, after=after),
        least_cost_per_hour_microusd=AmountChange(before=before * least_before, after=after * least_after),
    )

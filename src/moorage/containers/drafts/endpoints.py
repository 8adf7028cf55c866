from typing import Annotated

from fastapi import APIRouter, Body, Depends, Response

from moorage.containers.access import (
    ContainerAccess,
    manageable_container,
    readable_container,
    refuse_restart,
    startable_container,
)
from moorage.containers.drafts import service
from moorage.containers.drafts.schemas import AmountChange, ApplyRequest, ChangeRead, Draft, RollingNeeds
from moorage.containers.drafts.service import Comparison
from moorage.containers.schemas import MOST_SETTINGS_BYTES, Container, SettingsPatch
from moorage.containers.shown import answer, draft_summary
from moorage.containers.states import Strategy
from moorage.kit.web import TheClock, TheKeyring, TheSession, TheSettings, takes_body

router = APIRouter(tags=["drafts"])
Readable = Annotated[ContainerAccess, Depends(readable_container)]
Manageable = Annotated[ContainerAccess, Depends(manageable_container)]


@router.get("/containers/{container_id}/draft", summary="Get the draft")
async def get_draft(
    access: Readable, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> Draft:
    """Returns what the saved draft would change, with secrets masked, and what it would cost."""
    compared = await service.compare(session, access.container, keyring=keyring, settings=settings)
    return _draft(compared, settings.update_watch_s)


@router.put("/containers/{container_id}/draft", summary="Save a draft")
@takes_body(MOST_SETTINGS_BYTES)
async def save_draft(
    body: SettingsPatch, access: Manageable, session: TheSession, keyring: TheKeyring, settings: TheSettings
) -> Draft:
    """Saves new settings without changing what runs. The new draft replaces the previous one. Apply it with `POST
    …/draft/apply`."""
    compared = await service.save_draft(
        session, access.actor, access.container.id, body, keyring=keyring, settings=settings
    )
    return _draft(compared, settings.update_watch_s)


@router.delete("/containers/{container_id}/draft", summary="Discard the draft", status_code=204)
async def discard_draft(access: Manageable, session: TheSession) -> None:
    """Discards the saved settings. What runs does not change."""
    await service.discard_draft(session, access.actor, access.container.id)


@router.post("/containers/{container_id}/draft/apply", summary="Apply the draft", status_code=202)
async def apply_draft(
    access: Annotated[ContainerAccess, Depends(startable_container)],
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    clock: TheClock,
    response: Response,
    body: Annotated[ApplyRequest | None, Body()] = None,
) -> Container:
    """`replace` stops the container, then starts it with the new settings. `rolling` runs both versions side by side
    until the new one has proven itself. `canary` sends a share of the requests to the new version until somebody or a
    rule promotes or aborts it. If the new version fails, the old one stays or comes back."""
    wanted = body if body is not None else ApplyRequest()
    if wanted.strategy is not Strategy.REPLACE:
        await refuse_restart(session, access, settings, clock)
    changed = await service.apply_draft(
        session,
        access.actor,
        access.container.id,
        keyring=keyring,
        settings=settings,
        strategy=wanted.strategy,
        share=wanted.share,
        promote_after_s=wanted.promote_after_s,
    )
    return await answer(session, changed, settings, response)


def _draft(compared: Comparison, watch_s: int) -> Draft:
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
        rolling=RollingNeeds(
            beside_at_least=1,
            beside_at_most=compared.row.desired_replicas,
            room_for=compared.room_for,
            cost_microusd=compared.rolling_cost_microusd,
            available_microusd=compared.available_microusd,
            watch_s=watch_s,
        ),
        replace_cost_microusd=compared.replace_cost_microusd,
    )

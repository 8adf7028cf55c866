from typing import Annotated

from fastapi import APIRouter, Depends

from moorage.billing.auto_top_ups import service
from moorage.billing.auto_top_ups.schemas import AutoTopUp, AutoTopUpChange
from moorage.kit.web import TheSession
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["billing"])
Payer = Annotated[OrganizationAccess, Depends(organization_with(Permission.BILLING_MANAGE))]


@router.get("/organizations/{organization_id}/billing/auto-top-up", summary="Get automatic top-ups")
async def get_auto_top_up(access: Payer, session: TheSession) -> AutoTopUp:
    """Returns whether Moorage charges the saved card when the credit gets low, and whether that works."""
    return await service.show(session, access.organization.id)


@router.put("/organizations/{organization_id}/billing/auto-top-up", summary="Set automatic top-ups")
async def put_auto_top_up(body: AutoTopUpChange, access: Payer, session: TheSession) -> AutoTopUp:
    """Switches automatic top-ups on, changes them, or resumes them after a pause. They need a saved card."""
    await service.agree(session, access, body)
    return await service.show(session, access.organization.id)


@router.delete(
    "/organizations/{organization_id}/billing/auto-top-up",
    summary="Switch automatic top-ups off",
    status_code=204,
)
async def delete_auto_top_up(access: Payer, session: TheSession) -> None:
    """Moorage stops charging the card by itself. The card stays saved."""
    await service.call_off(session, access.organization.id, access.actor.id)

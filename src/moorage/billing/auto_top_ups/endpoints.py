from typing import Annotated

from fastapi import APIRouter, Depends

from moorage.billing.auto_top_ups import service
from moorage.billing.auto_top_ups.schemas import AutoTopUp, AutoTopUpChange
from moorage.kit.web import TheSession
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["billing"])
Payer = Annotated[OrganizationAccess, Depends(organization_with(Permission.BILLING_MANAGE))]


@router.get("/organizations/{organization_id}/billing/auto-top-up")
async def get_auto_top_up(access: Payer, session: TheSession) -> AutoTopUp:
    """Whether the saved card is charged when the credit gets low, and whether that works."""
    return await service.show(session, access.organization.id)


@router.put("/organizations/{organization_id}/billing/auto-top-up")
async def put_auto_top_up(body: AutoTopUpChange, access: Payer, session: TheSession) -> AutoTopUp:
    """Switch it on, change it, or switch it on again after it was paused. Needs a saved card."""
    await service.agree(session, access, body)
    return await service.show(session, access.organization.id)


@router.delete("/organizations/{organization_id}/billing/auto-top-up", status_code=204)
async def delete_auto_top_up(access: Payer, session: TheSession) -> None:
    """Switch it off. The card stays saved."""
    await service.call_off(session, access.organization.id, access.actor.id)

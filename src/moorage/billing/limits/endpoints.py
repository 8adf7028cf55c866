from typing import Annotated

from fastapi import APIRouter, Depends

from moorage.billing.limits import service
from moorage.billing.limits.schemas import LimitChange, SpendingLimits
from moorage.kit.web import TheSession
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["billing"])
Payer = Annotated[OrganizationAccess, Depends(organization_with(Permission.BILLING_MANAGE))]


@router.get("/organizations/{organization_id}/billing/limits", summary="Get spending limits")
async def get_limits(access: Payer, session: TheSession) -> SpendingLimits:
    """Returns the spending limits for a calendar month (UTC), and what was spent in this one."""
    return await service.show_limits(session, access)


@router.put(
    "/organizations/{organization_id}/billing/limits", summary="Set the organization's spending limit"
)
async def put_organization_limit(body: LimitChange, access: Payer, session: TheSession) -> SpendingLimits:
    """Limits the spending of all projects together. At the limit Moorage buys no more hours, and containers stop
    before their paid hours end."""
    await service.put_limit(session, access, access.organization.id, body.limit_microusd)
    return await service.show_limits(session, access)


@router.put(
    "/organizations/{organization_id}/billing/limits/{project_id}", summary="Set a project's spending limit"
)
async def put_project_limit(
    project_id: str, body: LimitChange, access: Payer, session: TheSession
) -> SpendingLimits:
    """Limits the spending of one project. The organization's limit also applies."""
    await service.put_limit(session, access, project_id, body.limit_microusd)
    return await service.show_limits(session, access)

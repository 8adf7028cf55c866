from fastapi import APIRouter
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers import suspension
from moorage.identity.authentication import TheOperator
from moorage.kit.errors import NotFoundError
from moorage.kit.web import TheSession
from moorage.organizations.operator.schemas import Suspension, SuspensionState
from moorage.organizations.repository import find_organization

router = APIRouter(tags=["operator"])


@router.post("/operator/organizations/{organization_id}/suspend", summary="Suspend an organization")
async def suspend_organization(
    organization_id: str, body: Suspension, operator: TheOperator, session: TheSession
) -> SuspensionState:
    """Stops the organization's containers. None starts until somebody resumes it. Its data stays."""
    await _existing(session, organization_id)
    await suspension.suspend(session, organization_id, operator.id, body.reason)
    return await _existing(session, organization_id)


@router.post("/operator/organizations/{organization_id}/resume", summary="Resume an organization")
async def resume_organization(
    organization_id: str, operator: TheOperator, session: TheSession
) -> SuspensionState:
    """Starts the containers again that were to run when the organization was suspended."""
    await _existing(session, organization_id)
    await suspension.resume(session, organization_id, operator.id)
    return await _existing(session, organization_id)


async def _existing(session: AsyncSession, organization_id: str) -> SuspensionState:
    row = await find_organization(session, organization_id)
    if row is None:
        raise NotFoundError("There is no such organization.")
    await session.refresh(row)
    return SuspensionState(id=row.id, suspended_at=row.suspended_at)

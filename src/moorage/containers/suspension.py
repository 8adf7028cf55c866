"""Suspending an organization: a fact on its row. The reconciler stops what runs; nothing new is started until it is resumed,
and then whatever was to run does so again."""

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.repository import mark_organization_due
from moorage.kit.errors import ForbiddenError
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.repository import is_suspended, set_suspended


async def suspend(session: AsyncSession, organization_id: str, actor: str, reason: str) -> bool:
    """False where it was suspended already."""
    return await _set(session, organization_id, actor, "organization.suspend", True, reason=reason)


async def resume(session: AsyncSession, organization_id: str, actor: str) -> bool:
    return await _set(session, organization_id, actor, "organization.resume", False)


async def refuse_suspended(session: AsyncSession, project_id: str) -> None:
    if await is_suspended(session, project_id):
        raise suspended()


def suspended() -> ForbiddenError:
    return ForbiddenError(
        "This organization is suspended. Ask the operator of this installation.", code="suspended"
    )


async def _set(
    session: AsyncSession, organization_id: str, actor: str, action: str, suspended: bool, **details: str
) -> bool:
    changed = await set_suspended(session, organization_id, suspended)
    if changed:
        record_audit(session, organization_id, actor=actor, action=action, target=organization_id, **details)
        await mark_organization_due(session, organization_id)
    return changed

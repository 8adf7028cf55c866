"""Monthly spending limits: what they are, and how they change. They are kept where hours are bought, in the ledger."""

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.limits import repository
from moorage.billing.limits.schemas import SpendingLimit, SpendingLimits
from moorage.containers.repository import mark_organization_due
from moorage.kit.errors import NotFoundError
from moorage.ledger.spending import Spent, next_month
from moorage.ledger.spending_repository import list_limits, spent_by_project, this_month
from moorage.organizations.access import OrganizationAccess
from moorage.organizations.audit.repository import record_audit


async def show_limits(session: AsyncSession, access: OrganizationAccess) -> SpendingLimits:
    organization = access.organization
    limits = {limit.scope_id: limit for limit in await list_limits(session, organization.id)}
    spent = await spent_by_project(session, organization.id)
    month = await this_month(session)

    def shown(scope_id: str, name: str, spent: Spent) -> SpendingLimit:
        limit = limits.get(scope_id)
        return SpendingLimit(
            scope_id=scope_id,
            name=name,
            limit_microusd=limit.limit_microusd if limit is not None else None,
            spent_microusd=spent.bought_microusd,
            held_microusd=spent.held_microusd,
            left_microusd=limit.left_microusd if limit is not None else None,
        )

    projects = await repository.list_project_names(session, organization.id)
    return SpendingLimits(
        month=month,
        resets_on=next_month(month),
        organization=shown(organization.id, organization.name, sum(spent.values(), Spent())),
        projects=[shown(one, name, spent.get(one, Spent())) for one, name in projects],
    )


async def put_limit(
    session: AsyncSession, access: OrganizationAccess, scope_id: str, limit_microusd: int | None
) -> None:
    """Of the organization, or of one of its projects. What waits for it, or stops at it, is seen to at once."""
    organization = access.organization
    projects = dict(await repository.list_project_names(session, organization.id))
    if scope_id not in (organization.id, *projects):
        raise NotFoundError("There is no such project.")
    # Containers before limits: renewals lock them in this order.
    await mark_organization_due(session, organization.id)
    if not await repository.put_limit(session, organization.id, scope_id, limit_microusd):
        return
    record_audit(
        session,
        organization.id,
        actor=access.actor.id,
        action="billing.spending_limit",
        target=scope_id,
        limit_microusd=limit_microusd,
    )

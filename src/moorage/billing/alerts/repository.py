"""SQL of alerts: who may have to be told something, and that they were."""

from sqlalchemy import func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.ledger.models import CreditAccountRow, HourRow, SpendingLimitRow
from moorage.ledger.spending import Limit
from moorage.organizations.models import OrganizationRow, ProjectRow


async def spending_organizations(session: AsyncSession) -> list[str]:
    """Those that bought an hour which is not over yet."""
    query = select(HourRow.organization_id).where(HourRow.due_at.is_not(None)).distinct()
    return list((await session.execute(query)).scalars())


async def told_percents(session: AsyncSession, organization_id: str) -> dict[str, tuple[object, int]]:
    """Scope → (month, percent)."""
    row = SpendingLimitRow
    query = select(row.scope_id, row.told_month, row.told_percent)
    found = await session.execute(query.where(row.organization_id == organization_id))
    return {scope_id: (month, percent) for scope_id, month, percent in found}


async def mark_told(session: AsyncSession, limit: Limit, percent: int) -> bool:
    """False where they were told as much in this month, or the limit is another by now."""
    row = SpendingLimitRow
    untold = or_(row.told_month.is_distinct_from(limit.month), row.told_percent < percent)
    told = (
        update(row)
        .where(row.scope_id == limit.scope_id, row.limit_microusd == limit.limit_microusd, untold)
        .values(told_month=limit.month, told_percent=percent)
        .returning(row.scope_id)
    )
    return (await session.execute(told)).first() is not None


async def lock_told_hours(session: AsyncSession, organization_id: str) -> int | None:
    row = CreditAccountRow
    query = select(row.low_credit_told_h).where(row.organization_id == organization_id).with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def set_told_hours(session: AsyncSession, organization_id: str, hours: int) -> None:
    account = update(CreditAccountRow).where(CreditAccountRow.organization_id == organization_id)
    await session.execute(account.values(low_credit_told_h=hours))


async def scope_name(session: AsyncSession, scope_id: str) -> str:
    project = select(func.concat("the project ", ProjectRow.name)).where(ProjectRow.id == scope_id)
    organization = select(OrganizationRow.name).where(OrganizationRow.id == scope_id)
    return str((await session.execute(project.union_all(organization))).scalar_one())

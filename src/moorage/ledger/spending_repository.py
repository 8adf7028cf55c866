"""SQL of spending limits: what is left of them, and under which lock that can be relied on."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from sqlalchemy import BigInteger, Date, cast, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.ledger.models import HourRow, SpendingLimitRow
from moorage.ledger.repository import available_credit, lock_available
from moorage.ledger.spending import Limit, Spent, tightest

_MONTH_BEGAN_AT = func.date_trunc("month", func.now(), "UTC")
_COUNTS = or_(HourRow.state == "held", HourRow.bought_at >= _MONTH_BEGAN_AT)


async def lock_tightest_limit(session: AsyncSession, organization_id: str, project_id: str) -> Limit | None:
    """Of those that bind the project. Nobody else of the organization spends until this transaction ends."""
    scopes = SpendingLimitRow.scope_id.in_((organization_id, project_id))
    rows = (await session.execute(select(SpendingLimitRow).where(scopes))).scalars().all()
    if not rows:
        return None
    # First the lock, then the sum: one statement would add up what was there before it waited for the lock.
    await lock_available(session, organization_id)
    return tightest(await _with_spent(session, organization_id, rows))


async def list_limits(session: AsyncSession, organization_id: str) -> list[Limit]:
    query = select(SpendingLimitRow).where(SpendingLimitRow.organization_id == organization_id)
    rows = (await session.execute(query.order_by(SpendingLimitRow.scope_id))).scalars().all()
    return await _with_spent(session, organization_id, rows) if rows else []


async def spent_by_project(session: AsyncSession, organization_id: str) -> dict[str, Spent]:
    """In this month."""
    price = HourRow.price_microusd
    query = (
        select(
            HourRow.project_id,
            func.coalesce(func.sum(price).filter(HourRow.state == "paid"), 0),
            func.coalesce(func.sum(price).filter(HourRow.state == "held"), 0),
        )
        .where(HourRow.organization_id == organization_id, _COUNTS)
        .group_by(HourRow.project_id)
    )
    return {
        project_id: Spent(int(bought), int(held)) for project_id, bought, held in await session.execute(query)
    }


async def this_month(session: AsyncSession) -> date:
    """Its first day, by the database's clock."""
    month: date = (
        await session.execute(select(cast(func.timezone("UTC", _MONTH_BEGAN_AT), Date)))
    ).scalar_one()
    return month


def spendable_credit(organization_id: Any, project_id: Any) -> Any:
    """A scalar subquery: what is available, and within the limits. For whoever reads other things about a container
    anyway; without a lock, so it is only what there was a moment ago."""
    return func.least(available_credit(organization_id), limits_left(organization_id, project_id))


def limits_left(organization_id: Any, project_id: Any) -> Any:
    """A scalar subquery; NULL where nothing is limited."""
    row = SpendingLimitRow
    of_scope = (HourRow.organization_id == row.organization_id) & row.scope_id.in_(
        (HourRow.organization_id, HourRow.project_id)
    )
    spent = (
        select(func.coalesce(func.sum(HourRow.price_microusd), 0))
        .where(of_scope, _COUNTS)
        .correlate(row)
        .scalar_subquery()
    )
    # A sum is a decimal number to Postgres; money is not.
    left = cast(func.min(func.greatest(row.limit_microusd - spent, 0)), BigInteger)
    query = select(left).where(row.scope_id.in_((organization_id, project_id)))
    return query.correlate_except(row, HourRow).scalar_subquery()


async def _with_spent(
    session: AsyncSession, organization_id: str, rows: Sequence[SpendingLimitRow]
) -> list[Limit]:
    by_project = await spent_by_project(session, organization_id)
    by_scope = {**by_project, organization_id: sum(by_project.values(), Spent())}
    month = await this_month(session)
    return [
        Limit(row.scope_id, row.limit_microusd, by_scope.get(row.scope_id, Spent()), month) for row in rows
    ]

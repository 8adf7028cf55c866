from sqlalchemy import func, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.payouts.models import PayoutAccountHashRow, PayoutAccountRow, PayoutRow
from moorage.kit.pagination import PageRequest
from moorage.organizations.models import OrganizationRow


async def find_account(session: AsyncSession, organization_id: str) -> PayoutAccountRow | None:
    return await session.get(PayoutAccountRow, organization_id)


async def lock_account(session: AsyncSession, organization_id: str) -> PayoutAccountRow | None:
    """Until the transaction ends, nobody else asks for a payout of the organization, decides about one, or changes where it goes."""
    query = select(PayoutAccountRow).where(PayoutAccountRow.organization_id == organization_id)
    locked = query.with_for_update().execution_options(populate_existing=True)
    return (await session.execute(locked)).scalar_one_or_none()


async def store_account(session: AsyncSession, row: PayoutAccountRow) -> None:
    values = {
        "sealed_details": row.sealed_details,
        "shown_account": row.shown_account,
        "changed_at": func.now(),
        "changed_by": row.changed_by,
    }
    new = insert(PayoutAccountRow).values(organization_id=row.organization_id, **values)
    there = [PayoutAccountRow.organization_id]
    await session.execute(new.on_conflict_do_update(index_elements=there, set_=values))


async def note_asked_for(session: AsyncSession, organization_id: str, account_hash: bytes) -> None:
    known = insert(PayoutAccountHashRow).values(organization_id=organization_id, account_hash=account_hash)
    await session.execute(known.on_conflict_do_nothing())


async def add_payout(session: AsyncSession, row: PayoutRow) -> None:
    session.add(row)
    await session.flush()
    await session.refresh(row)


async def find_payout(session: AsyncSession, payout_id: str) -> PayoutRow | None:
    query = select(PayoutRow).where(PayoutRow.id == payout_id)
    return (await session.execute(query.execution_options(populate_existing=True))).scalar_one_or_none()


async def find_requested(session: AsyncSession, organization_id: str) -> PayoutRow | None:
    row = PayoutRow
    query = select(row).where(row.organization_id == organization_id, row.state == "requested")
    return (await session.execute(query.execution_options(populate_existing=True))).scalar_one_or_none()


async def list_payouts(
    session: AsyncSession, page: PageRequest, *, organization_id: str | None = None, state: str | None = None
) -> list[tuple[PayoutRow, str]]:
    """Newest first, each with its organization's name; of everybody, where no organization is named."""
    row = PayoutRow
    query = select(row, OrganizationRow.name).join(OrganizationRow, OrganizationRow.id == row.organization_id)
    if organization_id is not None:
        query = query.where(row.organization_id == organization_id)
    if state is not None:
        query = query.where(row.state == state)
    if page.after is not None:
        query = query.where(tuple_(row.created_at, row.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(row.created_at.desc(), row.id.desc()).limit(page.limit + 1)
    return [(payout, name) for payout, name in await session.execute(newest_first)]

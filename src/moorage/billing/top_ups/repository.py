from sqlalchemy import func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.top_ups.models import BankTransferRow
from moorage.kit.pagination import PageRequest
from moorage.ledger.accounts import Kind
from moorage.ledger.models import EntryRow, TransactionRow


async def add_transfer(session: AsyncSession, row: BankTransferRow) -> None:
    session.add(row)
    await session.flush()
    await session.refresh(row)


async def lock_transfer(session: AsyncSession, transfer_id: str) -> BankTransferRow | None:
    query = select(BankTransferRow).where(BankTransferRow.id == transfer_id).with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def count_pending(session: AsyncSession, organization_id: str) -> int:
    row = BankTransferRow
    query = select(func.count()).where(row.organization_id == organization_id, row.state == "pending")
    return (await session.execute(query)).scalar_one()


async def find_transfer_of(
    session: AsyncSession, organization_id: str, transfer_id: str
) -> BankTransferRow | None:
    row = BankTransferRow
    query = select(row).where(row.id == transfer_id, row.organization_id == organization_id)
    return (await session.execute(query)).scalar_one_or_none()


async def list_transfers(
    session: AsyncSession,
    page: PageRequest,
    *,
    organization_id: str | None = None,
    state: str | None = None,
) -> list[BankTransferRow]:
    """Newest first; of everybody, where no organization is named."""
    query = select(BankTransferRow)
    if organization_id is not None:
        query = query.where(BankTransferRow.organization_id == organization_id)
    if state is not None:
        query = query.where(BankTransferRow.state == state)
    if page.after is not None:
        query = query.where(
            tuple_(BankTransferRow.created_at, BankTransferRow.id) < (page.after.time, page.after.id)
        )
    newest_first = query.order_by(BankTransferRow.created_at.desc(), BankTransferRow.id.desc())
    return list((await session.execute(newest_first.limit(page.limit + 1))).scalars())


async def list_credits(session: AsyncSession, page: PageRequest) -> list[tuple[TransactionRow, int]]:
    query = (
        select(TransactionRow, func.max(EntryRow.amount_microusd))
        .join(EntryRow, EntryRow.transaction_id == TransactionRow.id)
        .where(TransactionRow.kind == Kind.CREDIT)
        .group_by(TransactionRow.id)
    )
    if page.after is not None:
        query = query.where(tuple_(TransactionRow.at, TransactionRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(TransactionRow.at.desc(), TransactionRow.id.desc()).limit(page.limit + 1)
    return [(row, int(amount)) for row, amount in await session.execute(newest_first)]


async def find_transaction(session: AsyncSession, key: str) -> TransactionRow:
    return (await session.execute(select(TransactionRow).where(TransactionRow.key == key))).scalar_one()

"""SQL of the movements of an organization's money, as people read them. Reads only."""

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, func, null, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow
from moorage.kit.pagination import PageRequest
from moorage.ledger.accounts import OF_OWNERS, Kind, credit_of
from moorage.ledger.models import CreditAccountRow, EntryRow, TransactionRow
from moorage.organizations.models import ProjectRow

EntrySort = Literal["usage", "other"]


@dataclass(frozen=True)
class Entry:
    """A transaction, and what it did to the credit."""

    transaction: TransactionRow
    amount_microusd: int
    project_name: str | None
    container_name: str | None
    balance_after_microusd: int | None
    """With what is on hold; None where entries are left out."""


async def list_entries(
    session: AsyncSession, organization_id: str, page: PageRequest, only: EntrySort | None = None
) -> list[Entry]:
    """Newest first. The balance is counted back from what is there now, in one statement, so that no movement is in one
    of the two and not in the other."""
    amount = func.coalesce(EntryRow.amount_microusd, 0)
    position = tuple_(TransactionRow.at, TransactionRow.id)
    newest_first = (TransactionRow.at.desc(), TransactionRow.id.desc())
    newer_here = func.coalesce(func.sum(amount).over(order_by=newest_first, rows=(None, -1)), 0)
    balance: ColumnElement[Any] = null()
    if only is None:
        balance = _balance_after(organization_id, page) - newer_here
    query = (
        select(TransactionRow, amount, ProjectRow.name, ContainerRow.name, balance)
        .outerjoin(
            EntryRow,
            (EntryRow.transaction_id == TransactionRow.id) & (EntryRow.account == credit_of(organization_id)),
        )
        .outerjoin(ContainerRow, ContainerRow.id == TransactionRow.details["container_id"].astext)
        .outerjoin(ProjectRow, ProjectRow.id == TransactionRow.details["project_id"].astext)
        .where(TransactionRow.organization_id == organization_id, TransactionRow.kind.not_in(OF_OWNERS))
    )
    if only is not None:
        is_usage = TransactionRow.kind == Kind.USAGE
        query = query.where(is_usage if only == "usage" else ~is_usage)
    if page.after is not None:
        query = query.where(position < (page.after.time, page.after.id))
    rows = await session.execute(query.order_by(*newest_first).limit(page.limit + 1))
    return [
        Entry(row, int(change), project, container, None if balance is None else int(balance))
        for row, change, project, container, balance in rows
    ]


def _balance_after(organization_id: str, page: PageRequest) -> ColumnElement[Any]:
    """After the page's first entry: what is there now, without what came later."""
    account = CreditAccountRow
    now = (
        select(account.available_microusd + account.held_microusd)
        .where(account.organization_id == organization_id)
        .scalar_subquery()
    )
    if page.after is None:
        return now
    later = (
        select(func.coalesce(func.sum(EntryRow.amount_microusd), 0))
        .join(TransactionRow, TransactionRow.id == EntryRow.transaction_id)
        .where(
            TransactionRow.organization_id == organization_id,
            EntryRow.account == credit_of(organization_id),
            tuple_(TransactionRow.at, TransactionRow.id) >= (page.after.time, page.after.id),
        )
        .scalar_subquery()
    )
    return now - later

"""SQL of what an organization still has when somebody wants to delete it."""

from collections.abc import Sequence

from sqlalchemy import BigInteger, ColumnElement, cast, delete, exists, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.cards.models import CardPaymentRow
from moorage.billing.top_ups.models import BankTransferRow
from moorage.containers.models import ContainerRow
from moorage.ledger.accounts import Source, receivable_of
from moorage.ledger.models import CreditLotRow, EntryRow, HourRow
from moorage.machines.models import ServedSpanRow
from moorage.organizations.models import MemberRow, ProjectRow
from moorage.webhooks.models import WebhookRow


async def container_names(session: AsyncSession, organization_id: str) -> list[str]:
    """Of all that are not gone, in projects that were removed too."""
    query = (
        select(ContainerRow.name)
        .join(ProjectRow, ProjectRow.id == ContainerRow.project_id)
        .where(ProjectRow.organization_id == organization_id, ContainerRow.deleted_at.is_(None))
    )
    return list((await session.execute(query.order_by(ContainerRow.name, ContainerRow.id))).scalars())


async def serves_in_unsettled_hours(session: AsyncSession, organization_id: str) -> bool:
    """What its machines served in an hour is earned when the hour is over."""
    hour, span = HourRow, ServedSpanRow
    of_hour = (
        (span.container_id == hour.container_id)
        & (span.began_at < hour.expires_at)
        & or_(span.ended_at.is_(None), span.ended_at > hour.begins_at)
    )
    unsettled = (hour.state == "paid") & hour.settled_at.is_(None) & hour.begins_at.is_not(None)
    served = exists().where(span.owner_organization_id == organization_id, of_hour, unsettled)
    return bool((await session.execute(select(served))).scalar_one())


async def receivable(session: AsyncSession, organization_id: str) -> int:
    """What it owes: below zero is money that came from it, as everywhere in the ledger."""
    query = select(func.coalesce(func.sum(EntryRow.amount_microusd), 0)).where(
        EntryRow.account == receivable_of(organization_id)
    )
    return max(-int((await session.execute(query)).scalar_one()), 0)


async def credit_by_origin(session: AsyncSession, organization_id: str) -> tuple[int, int]:
    """What is left of what was paid in, and of what was given."""
    lot = CreditLotRow
    left = lot.amount_microusd - lot.spent_microusd - lot.withdrawn_microusd

    def of(which: ColumnElement[bool]) -> ColumnElement[int]:
        return func.coalesce(cast(func.sum(left).filter(which), BigInteger), 0)

    given = lot.source == Source.GIVEN
    query = select(of(~given), of(given)).where(lot.organization_id == organization_id)
    paid_microusd, given_microusd = (await session.execute(query)).one()
    return paid_microusd, given_microusd


async def count_open_payments(session: AsyncSession, organization_id: str) -> int:
    """Also those that failed as far as we know, and that the provider is still asked about: called off while they were under way,
    or declined, with a page where a person can confirm them."""
    row = CardPaymentRow
    is_open = row.paid_at.is_(None) & or_(row.failed_at.is_(None), row.ask_at.is_not(None))
    query = select(func.count()).where(row.organization_id == organization_id, is_open)
    return (await session.execute(query)).scalar_one()


async def pending_references(session: AsyncSession, organization_id: str, *, lock: bool = False) -> list[str]:
    row = BankTransferRow
    query = select(row.reference).where(row.organization_id == organization_id, row.state == "pending")
    query = query.order_by(row.id)
    return list((await session.execute(query.with_for_update() if lock else query)).scalars())


async def call_off_transfers(session: AsyncSession, references: Sequence[str]) -> None:
    """Those that were locked before."""
    called_off = update(BankTransferRow).where(BankTransferRow.reference.in_(references))
    await session.execute(called_off.values(state="expired", decided_at=func.now()))


async def remove_webhooks(session: AsyncSession, organization_id: str) -> None:
    await session.execute(delete(WebhookRow).where(WebhookRow.organization_id == organization_id))


async def belong_elsewhere(session: AsyncSession, organization_id: str, user_ids: Sequence[str]) -> set[str]:
    """Those of them who are members of another organization too."""
    query = select(MemberRow.user_id).where(
        MemberRow.organization_id != organization_id, MemberRow.user_id.in_(user_ids)
    )
    return set((await session.execute(query)).scalars())

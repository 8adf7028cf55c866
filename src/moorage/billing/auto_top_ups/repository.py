from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from sqlalchemy import case, delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.auto_top_ups.models import AutoTopUpRow
from moorage.billing.auto_top_ups.rules import Policy, Situation
from moorage.billing.cards.models import CardPaymentRow, SavedCardRow
from moorage.ledger.models import CreditAccountRow
from moorage.ledger.repository import balance_of
from moorage.organizations.models import OrganizationRow

_OPEN = CardPaymentRow.automatic & CardPaymentRow.paid_at.is_(None) & CardPaymentRow.failed_at.is_(None)


@dataclass(frozen=True)
class Found:
    """All that a decision depends on."""

    policy: Policy
    situation: Situation
    card: SavedCardRow | None
    now: datetime


async def due_organizations(session: AsyncSession) -> list[str]:
    """Those whose credit is low, or with a charge that nobody knows the end of."""
    row, account = AutoTopUpRow, CreditAccountRow
    available = func.coalesce(account.available_microusd, 0)
    under_way = exists().where(CardPaymentRow.organization_id == row.organization_id, _OPEN)
    query = (
        select(row.organization_id)
        .outerjoin(account, account.organization_id == row.organization_id)
        .where(or_(available < row.threshold_microusd, under_way))
        .order_by(row.organization_id)
    )
    return list((await session.execute(query)).scalars())


async def find(session: AsyncSession, organization_id: str, *, lock: bool = False) -> Found | None:
    """None where nobody agreed to it. With a lock, what was agreed to does not change meanwhile."""
    query = select(AutoTopUpRow).where(AutoTopUpRow.organization_id == organization_id)
    query = query.with_for_update() if lock else query
    row = (await session.execute(query)).scalar_one_or_none()
    if row is None:
        return None
    card = await session.get(SavedCardRow, organization_id)
    has_card = card is not None and card.payment_method_id is not None
    suspended = select(OrganizationRow.suspended_at).where(OrganizationRow.id == organization_id)
    now: datetime = (await session.execute(select(func.now()))).scalar_one()
    situation = Situation(
        available_microusd=(await balance_of(session, organization_id)).available_microusd,
        charged_microusd=await _charged(session, organization_id),
        failures_at=await _failures_at(session, organization_id, row.agreed_at),
        has_card=has_card,
        suspended=(await session.execute(suspended)).scalar_one() is not None,
    )
    policy = Policy(row.threshold_microusd, row.amount_microusd, row.monthly_cap_microusd)
    return Found(policy, situation, card if has_card else None, now)


async def open_payment(session: AsyncSession, organization_id: str) -> CardPaymentRow | None:
    query = select(CardPaymentRow).where(CardPaymentRow.organization_id == organization_id, _OPEN)
    return (await session.execute(query)).scalar_one_or_none()


async def mark_failed(session: AsyncSession, top_up_id: str, code: str) -> bool:
    """False where it was paid after all, or somebody else noted its end."""
    failed = (
        update(CardPaymentRow)
        .where(CardPaymentRow.id == top_up_id, _OPEN)
        # The charge may have gone through although nobody heard of it: the provider is asked.
        .values(failed_at=func.now(), failure_code=code, ask_at=func.now())
        .returning(CardPaymentRow.id)
    )
    return (await session.execute(failed)).first() is not None


async def put_policy(session: AsyncSession, organization_id: str, policy: Policy, agreed_by: str) -> None:
    values = {
        "threshold_microusd": policy.threshold_microusd,
        "amount_microusd": policy.amount_microusd,
        "monthly_cap_microusd": policy.monthly_cap_microusd,
        "agreed_by": agreed_by,
        "agreed_at": func.clock_timestamp(),
        "cap_told_month": None,
    }
    row = insert(AutoTopUpRow).values(organization_id=organization_id, **values)
    await session.execute(row.on_conflict_do_update(index_elements=["organization_id"], set_=values))


async def remove_policy(session: AsyncSession, organization_id: str) -> bool:
    gone = delete(AutoTopUpRow).where(AutoTopUpRow.organization_id == organization_id)
    return (await session.execute(gone.returning(AutoTopUpRow.organization_id))).first() is not None


async def mark_cap_told(session: AsyncSession, organization_id: str, month: date) -> bool:
    """False where they heard of it in this month."""
    row = AutoTopUpRow
    told = (
        update(row)
        .where(row.organization_id == organization_id, row.cap_told_month.is_distinct_from(month))
        .values(cap_told_month=month)
        .returning(row.organization_id)
    )
    return (await session.execute(told)).first() is not None


async def _charged(session: AsyncSession, organization_id: str) -> int:
    """What failed does not count, unless it was paid on its page later."""
    row = CardPaymentRow
    query = select(func.coalesce(func.sum(row.amount_microusd), 0)).where(
        row.organization_id == organization_id,
        row.automatic,
        row.created_at >= func.date_trunc("month", func.now(), "UTC"),
        or_(row.failed_at.is_(None), row.paid_at.is_not(None)),
    )
    return int((await session.execute(query)).scalar_one())


async def _failures_at(session: AsyncSession, organization_id: str, since: datetime) -> Sequence[datetime]:
    row = CardPaymentRow
    mine = (row.organization_id == organization_id) & row.automatic
    worked_at = select(func.max(row.paid_at)).where(mine).scalar_subquery()
    query = select(row.failed_at).where(
        mine,
        row.paid_at.is_(None),
        row.failed_at > since,
        case((worked_at.is_(None), True), else_=row.failed_at > worked_at),
    )
    return [at for at in (await session.execute(query.order_by(row.failed_at))).scalars() if at is not None]

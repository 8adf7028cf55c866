from sqlalchemy import func, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.cards.models import CardPaymentRow
from moorage.kit.pagination import PageRequest


async def add_payment(session: AsyncSession, row: CardPaymentRow) -> None:
    session.add(row)
    await session.flush()
    await session.refresh(row)


async def lock_payment(session: AsyncSession, top_up_id: str) -> CardPaymentRow | None:
    """What happens to one payment happens one after the other."""
    query = select(CardPaymentRow).where(CardPaymentRow.id == top_up_id).with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def record_checkout(session: AsyncSession, top_up_id: str, session_id: str, url: str) -> None:
    row = update(CardPaymentRow).where(CardPaymentRow.id == top_up_id)
    await session.execute(row.values(checkout_session_id=session_id, checkout_url=url))


async def mark_paid(session: AsyncSession, top_up_id: str) -> None:
    unpaid = (CardPaymentRow.id == top_up_id) & CardPaymentRow.paid_at.is_(None)
    await session.execute(update(CardPaymentRow).where(unpaid).values(paid_at=func.now()))


async def list_payments(
    session: AsyncSession, organization_id: str, page: PageRequest
) -> list[CardPaymentRow]:
    query = select(CardPaymentRow).where(CardPaymentRow.organization_id == organization_id)
    if page.after is not None:
        query = query.where(
            tuple_(CardPaymentRow.created_at, CardPaymentRow.id) < (page.after.time, page.after.id)
        )
    newest_first = query.order_by(CardPaymentRow.created_at.desc(), CardPaymentRow.id.desc())
    return list((await session.execute(newest_first.limit(page.limit + 1))).scalars())

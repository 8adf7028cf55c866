from datetime import datetime

from sqlalchemy import func, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.cards.models import CardPaymentRow, SavedCardRow
from moorage.billing.cards.provider import Card
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


async def find_saved_card(session: AsyncSession, organization_id: str) -> SavedCardRow | None:
    return await session.get(SavedCardRow, organization_id)


async def add_customer(session: AsyncSession, organization_id: str, customer_id: str) -> None:
    row = insert(SavedCardRow).values(organization_id=organization_id, customer_id=customer_id)
    await session.execute(row.on_conflict_do_nothing())


async def find_customer(session: AsyncSession, customer_id: str) -> str | None:
    """The organization's id."""
    query = select(SavedCardRow.organization_id).where(SavedCardRow.customer_id == customer_id)
    return (await session.execute(query)).scalar_one_or_none()


async def database_now(session: AsyncSession) -> datetime:
    now: datetime = (await session.execute(select(func.clock_timestamp()))).scalar_one()
    return now


async def write_card(session: AsyncSession, customer_id: str, card: Card | None, asked_at: datetime) -> None:
    row = SavedCardRow
    newer = (row.customer_id == customer_id) & or_(row.asked_at.is_(None), row.asked_at < asked_at)
    values = {
        "payment_method_id": card.payment_method_id if card is not None else None,
        "brand": card.brand if card is not None else None,
        "last4": card.last4 if card is not None else None,
        "expires_month": card.expires_month if card is not None else None,
        "expires_year": card.expires_year if card is not None else None,
        "asked_at": asked_at,
    }
    await session.execute(update(row).where(newer).values(values))

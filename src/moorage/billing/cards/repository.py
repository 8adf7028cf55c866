from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import func, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.cards.asking import ask_again_after
from moorage.billing.cards.models import CardPaymentRow, SavedCardRow, UnknownCardPaymentRow
from moorage.billing.cards.order import Order
from moorage.billing.cards.provider import Card, Facts
from moorage.containers.activity import SYSTEM
from moorage.kit.database import database_now
from moorage.kit.pagination import PageRequest


async def add_payment(session: AsyncSession, row: CardPaymentRow) -> None:
    session.add(row)
    await session.flush()
    await session.refresh(row)


async def count_open_pages(session: AsyncSession, organization_id: str) -> int:
    """Whether one was closed is known when the provider was asked about it."""
    row = CardPaymentRow
    is_open = row.paid_at.is_(None) & row.failed_at.is_(None) & ~row.automatic
    query = select(func.count()).where(row.organization_id == organization_id, is_open)
    return (await session.execute(query)).scalar_one()


async def lock_payment(session: AsyncSession, top_up_id: str) -> CardPaymentRow | None:
    """What happens to one payment happens one after the other."""
    query = select(CardPaymentRow).where(CardPaymentRow.id == top_up_id).with_for_update()
    return (await session.execute(query)).scalar_one_or_none()


async def add_recovered(session: AsyncSession, facts: Facts, order: Order, organization_id: str) -> bool:
    """Whether it is new. As paid at once: only one that is under way may be so for its organization."""
    row = insert(CardPaymentRow).values(
        id=order.top_up_id,
        organization_id=organization_id,
        amount_microusd=facts.amount_microusd,
        requested_by=order.requested_by or SYSTEM,
        automatic=order.automatic,
        created_at=func.least(facts.created_at, func.now()),
        paid_at=func.now(),
        payment_intent_id=facts.intent_id,
    )
    added = await session.execute(row.on_conflict_do_nothing().returning(CardPaymentRow.id))
    return added.scalar_one_or_none() is not None


async def note_unknown(session: AsyncSession, facts: Facts, order: Order) -> bool:
    """Whether it is new."""
    row = insert(UnknownCardPaymentRow).values(
        payment_intent_id=facts.intent_id,
        top_up_id=order.top_up_id,
        organization_id=order.organization_id,
        amount_microusd=facts.amount_microusd,
    )
    noted = row.on_conflict_do_nothing().returning(UnknownCardPaymentRow.payment_intent_id)
    return (await session.execute(noted)).scalar_one_or_none() is not None


async def settled_payments(session: AsyncSession, intent_ids: Sequence[str]) -> set[str]:
    """Those of them that are booked, or that the operator was told about."""
    paid = select(CardPaymentRow.payment_intent_id).where(
        CardPaymentRow.payment_intent_id.in_(intent_ids), CardPaymentRow.paid_at.is_not(None)
    )
    told = select(UnknownCardPaymentRow.payment_intent_id).where(
        UnknownCardPaymentRow.payment_intent_id.in_(intent_ids)
    )
    return {intent_id for intent_id in (await session.execute(paid.union(told))).scalars() if intent_id}


async def record_checkout(session: AsyncSession, top_up_id: str, session_id: str, url: str) -> None:
    """From here on the provider is asked what became of it."""
    row = update(CardPaymentRow).where(CardPaymentRow.id == top_up_id)
    first_ask_at = func.now() + ask_again_after(timedelta(), paid=False)
    await session.execute(row.values(checkout_session_id=session_id, checkout_url=url, ask_at=first_ask_at))


async def find_payment(session: AsyncSession, organization_id: str, top_up_id: str) -> CardPaymentRow | None:
    row = CardPaymentRow
    query = select(row).where(row.id == top_up_id, row.organization_id == organization_id)
    return (await session.execute(query)).scalar_one_or_none()


async def due_payments(session: AsyncSession, limit: int) -> tuple[list[str], float | None]:
    """Those to ask about now, and in how many seconds the next one is."""
    in_s = func.extract("epoch", CardPaymentRow.ask_at - func.clock_timestamp())
    query = (
        select(CardPaymentRow.id, in_s)
        .where(CardPaymentRow.ask_at.is_not(None))
        .order_by(CardPaymentRow.ask_at)
        .limit(limit + 1)
    )
    soonest = (await session.execute(query)).all()
    keys = [key for key, left_s in soonest if left_s <= 0]
    return keys[:limit], next((float(left_s) for _, left_s in soonest if left_s > 0), None)


async def claim_ask(session: AsyncSession, top_up_id: str, rest: timedelta) -> CardPaymentRow | None:
    """Who asks pushes the next time away first, so that a provider who does not answer is not asked without rest.
    None where somebody asked a moment ago, or nothing is left to ask."""
    asked = (
        update(CardPaymentRow)
        .where(CardPaymentRow.id == top_up_id, CardPaymentRow.ask_at.is_not(None))
        .values(ask_at=func.clock_timestamp() + rest)
        .returning(CardPaymentRow)
    )
    return (await session.execute(asked)).scalar_one_or_none()


async def schedule_ask(session: AsyncSession, row: CardPaymentRow, *, page_open: bool = False) -> None:
    now = await database_now(session)
    # One that was given up may have been charged: from then on it is asked about.
    begun_at = row.paid_at or row.failed_at or row.created_at
    pause = ask_again_after(now - begun_at, paid=row.paid_at is not None, page_open=page_open)
    row.ask_at = None if pause is None else now + pause


async def mark_paid(session: AsyncSession, row: CardPaymentRow, intent_id: str) -> None:
    if row.paid_at is None:
        row.paid_at = await database_now(session)
    row.payment_intent_id = intent_id
    await schedule_ask(session, row)
    await session.flush()


def mark_expired(row: CardPaymentRow, now: datetime) -> None:
    """Nobody can pay on that page any more."""
    row.checkout_url = row.ask_at = None
    if row.failed_at is None:
        row.failed_at, row.failure_code = now, "expired"


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

"""Top-ups by card: a page is opened, and what the provider says about the payment is booked, each thing once."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.cards import repository
from moorage.billing.cards.asking import PAGE_LIVES
from moorage.billing.cards.models import CardPaymentRow, SavedCardRow
from moorage.billing.cards.order import Order
from moorage.billing.cards.provider import CardProvider, Checkout, Dispute, Facts, Page, Refund
from moorage.billing.cards.recovery import recover
from moorage.billing.cards.words import charged_mail
from moorage.billing.earnings.relations_repository import note_card
from moorage.billing.earnings.service import note_taken_back
from moorage.billing.mails import tell_admins
from moorage.billing.top_ups.service import check_amount
from moorage.containers.activity import SYSTEM
from moorage.containers.suspension import suspend
from moorage.identity.actor import UserActor
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database, database_now
from moorage.kit.errors import InvalidInputError
from moorage.kit.ids import new_top_up_id
from moorage.kit.installation import ensure_installation_id
from moorage.kit.settings import Settings
from moorage.ledger.accounts import CARD, Kind, credit_of, receivable_of
from moorage.ledger.initial_credit_repository import give_for_card
from moorage.ledger.repository import Posting, booked_amounts, booked_keys, lock_available, post
from moorage.organizations.access import hold_as_member
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.caps import CARD_PAGES, require_room
from moorage.organizations.models import OrganizationRow

MOST_OPEN_PAGES = 50
"""Of an organization: the provider is asked about each for a day, and answers so many questions a second and no more."""
Transactions = Callable[[], AbstractAsyncContextManager[AsyncSession]]
"""Each is one: a leader's begins with its lease."""


async def begin_payment(
    database: Database,
    provider: CardProvider,
    actor: UserActor,
    organization: OrganizationRow,
    amount_microusd: int,
) -> tuple[CardPaymentRow, Checkout]:
    """The row is there before the provider hears of it, so a payment is never without one."""
    check_amount("amount_microusd", amount_microusd)
    row = CardPaymentRow(
        id=new_top_up_id(),
        organization_id=organization.id,
        amount_microusd=amount_microusd,
        requested_by=actor.id,
        # Should we die before the page is noted, the row does not wait for ever.
        ask_at=func.now() + PAGE_LIVES,
    )
    async with database.transaction() as session:
        await require_room(session, CARD_PAGES, organization.id, repository.count_open_pages, MOST_OPEN_PAGES)
        await hold_as_member(session, organization.id, actor.user_id)
        await repository.add_payment(session, row)
        record_audit(
            session,
            organization.id,
            actor=actor.id,
            action="billing.top_up",
            target=row.id,
            method="card",
            amount_microusd=amount_microusd,
        )
        order = order_of(row, await ensure_installation_id(session))
    checkout = await provider.begin(order, amount_microusd)
    async with database.transaction() as session:
        await repository.record_checkout(session, row.id, checkout.session_id, checkout.url)
    return row, checkout


def order_of(row: CardPaymentRow, installation_id: str) -> Order:
    return Order(row.id, installation_id, row.organization_id, row.requested_by, row.automatic)


async def ask(
    transaction: Transactions,
    provider: CardProvider,
    top_up_id: str,
    keyring: Keyring,
    settings: Settings,
    *,
    rest: timedelta,
) -> None:
    """Ask the provider what became of a payment, and book it."""
    async with transaction() as session:
        row = await repository.claim_ask(session, top_up_id, rest)
        card = await repository.find_saved_card(session, row.organization_id) if row is not None else None
    if row is None:
        return
    page = await _page(provider, row, card)
    async with transaction() as session:
        if page.facts is not None:
            await book(session, page.facts, keyring, settings)
        locked = await repository.lock_payment(session, top_up_id)
        assert locked is not None, "payments are never removed"
        await repository.schedule_ask(session, locked, page_open=page.open)
        if locked.paid_at is None and (page.expired or locked.ask_at is None):
            repository.mark_expired(locked, await database_now(session))


async def _page(provider: CardProvider, row: CardPaymentRow, card: SavedCardRow | None) -> Page:
    if row.payment_intent_id is not None:
        return Page(await provider.facts_of(row.payment_intent_id), open=False, expired=False)
    if row.checkout_session_id is not None:
        return await provider.page(row.checkout_session_id)
    facts = await provider.find_charge(card.customer_id, row.id) if card is not None else None
    return Page(facts, open=False, expired=False)


async def book(session: AsyncSession, facts: Facts, keyring: Keyring, settings: Settings) -> None:
    """Make the ledger say what the provider says. Safe to repeat, and in any order."""
    if facts.order is None:
        return  # The account sells other things too.
    row = await repository.lock_payment(session, facts.order.top_up_id)
    if row is None:
        row = await recover(session, facts, facts.order, keyring, settings)
    if row is None or not facts.paid:
        return
    if facts.currency != "usd" or facts.amount_microusd != row.amount_microusd:
        raise InvalidInputError(
            "The payment is not the one that was asked for: its amount or currency differs.",
            code="payment_mismatch",
        )
    if await _has_new_dispute(session, facts):
        # Before anything is booked: this marks containers, and whoever locks those and an account does it in this order.
        await suspend(session, row.organization_id, SYSTEM, "A card payment was disputed.")
    if facts.card_fingerprint is not None and not facts.refunds and not facts.disputes:
        await give_for_card(session, row.organization_id, facts.card_fingerprint)
    is_new = await _post(session, row, Kind.CARD_TOP_UP, f"card:{row.id}", facts.amount_microusd)
    await repository.mark_paid(session, row, facts.intent_id)
    if is_new and row.automatic:
        subject, text = charged_mail(row.amount_microusd)
        await tell_admins(session, keyring, row.organization_id, subject=subject, text=text)
    for refund in facts.refunds:
        await _refund(session, row, refund)
    for dispute in facts.disputes:
        await _dispute(session, row, dispute)
    await note_card(session, row.organization_id, facts.card_fingerprint)
    taken_back = sum(one.amount_microusd for one in facts.refunds if not one.failed)
    taken_back += sum(one.amount_microusd for one in facts.disputes if not one.won)
    await note_taken_back(session, row.organization_id, f"card:{row.id}", taken_back)


async def _has_new_dispute(session: AsyncSession, facts: Facts) -> bool:
    """One that is booked has had its effect: whoever resumed the organization since has decided about it."""
    keys = [_dispute_key(dispute) for dispute in facts.disputes if not dispute.won]
    return len(await booked_keys(session, keys)) < len(keys)


async def _refund(session: AsyncSession, row: CardPaymentRow, refund: Refund) -> None:
    """Out of the credit; what was spent already is owed. One that failed goes back to where it came from."""
    if refund.failed:
        await _undo_refund(session, row, refund)
        return
    available = await lock_available(session, row.organization_id)
    from_credit = min(available, refund.amount_microusd)
    owed = refund.amount_microusd - from_credit
    key = f"refund:{refund.id}"
    if from_credit == 0:
        await _post(session, row, Kind.DISPUTE, key, owed)
    elif await _post(session, row, Kind.REFUND, key, from_credit) and owed:
        await _post(session, row, Kind.DISPUTE, f"{key}:owed", owed)


async def _undo_refund(session: AsyncSession, row: CardPaymentRow, refund: Refund) -> None:
    keys = (f"refund:{refund.id}", f"refund:{refund.id}:owed")
    for key, (account, amount_microusd) in (await booked_amounts(session, keys)).items():
        posting = Posting(
            key=key.replace("refund:", "refund-failed:", 1),
            kind=Kind.REFUND_FAILED,
            organization_id=row.organization_id,
            source=CARD,
            target=account,
            amount_microusd=amount_microusd,
            details={"top_up_id": row.id},
        )
        await post(session, posting)


async def _dispute(session: AsyncSession, row: CardPaymentRow, dispute: Dispute) -> None:
    await _post(session, row, Kind.DISPUTE, _dispute_key(dispute), dispute.amount_microusd)
    if dispute.won:
        await _post(session, row, Kind.DISPUTE_WON, f"dispute-won:{dispute.id}", dispute.amount_microusd)


def _dispute_key(dispute: Dispute) -> str:
    return f"dispute:{dispute.id}"


async def _post(
    session: AsyncSession, row: CardPaymentRow, kind: Kind, key: str, amount_microusd: int
) -> bool:
    credit, owed = credit_of(row.organization_id), receivable_of(row.organization_id)
    source, target = {
        Kind.CARD_TOP_UP: (CARD, credit),
        Kind.REFUND: (credit, CARD),
        Kind.DISPUTE: (owed, CARD),
        Kind.DISPUTE_WON: (CARD, owed),
    }[kind]
    details = {"top_up_id": row.id}
    return await post(
        session, Posting(key, kind, row.organization_id, source, target, amount_microusd, details)
    )

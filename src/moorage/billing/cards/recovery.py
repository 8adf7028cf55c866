"""Payments that the provider knows and the rows do not: a backup was restored that is older than they are.

Whoever paid has their credit. The row is made again from what travels with the payment (`order.py`), once, whoever hears
of it first: the row's id is the top-up's, and the ledger books each of those once.
"""

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.cards import repository
from moorage.billing.cards.models import CardPaymentRow
from moorage.billing.cards.order import Order
from moorage.billing.cards.provider import Facts
from moorage.billing.cards.words import unknown_payment_mail
from moorage.containers.activity import SYSTEM
from moorage.kit.crypto import Keyring
from moorage.kit.installation import ensure_installation_id
from moorage.kit.settings import Settings
from moorage.notifications.repository import queue_mail
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.repository import find_organization

log = structlog.get_logger()


async def recover(
    session: AsyncSession, facts: Facts, order: Order, keyring: Keyring, settings: Settings
) -> CardPaymentRow | None:
    """The row of a payment without one, locked; None where there is nobody to give the credit to."""
    if order.installation_id not in (None, await ensure_installation_id(session)) or not facts.paid:
        return None  # Another installation's on the same account, or nothing that anybody could miss.
    organization_id = order.organization_id
    if organization_id is None or await find_organization(session, organization_id) is None:
        await _tell_the_operator(session, facts, order, keyring, settings)
        return None
    if await repository.add_recovered(session, facts, order, organization_id):
        log.warning("card_payment_recovered", top_up_id=order.top_up_id, intent_id=facts.intent_id)
        record_audit(
            session,
            organization_id,
            actor=SYSTEM,
            action="billing.top_up",
            target=order.top_up_id,
            method="card",
            amount_microusd=facts.amount_microusd,
            recovered=True,
        )
    return await repository.lock_payment(session, order.top_up_id)


async def _tell_the_operator(
    session: AsyncSession, facts: Facts, order: Order, keyring: Keyring, settings: Settings
) -> None:
    log.error("card_payment_unknown", top_up_id=order.top_up_id, intent_id=facts.intent_id)
    if await repository.note_unknown(session, facts, order):
        subject, text = unknown_payment_mail(facts.intent_id, facts.amount_microusd, order.organization_id)
        await queue_mail(session, keyring, to=settings.operator_email, subject=subject, text=text)

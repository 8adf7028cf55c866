"""Automatic top-ups: what an admin agrees to, and what comes of each charge."""

from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.auto_top_ups import repository, words
from moorage.billing.auto_top_ups.rules import Policy, Step, next_step, tries_again_at
from moorage.billing.auto_top_ups.schemas import AutoTopUp, AutoTopUpChange
from moorage.billing.cards.models import CardPaymentRow
from moorage.billing.cards.repository import add_payment
from moorage.billing.mails import tell_admins
from moorage.billing.top_ups.amounts import CENT_MICROUSD, MOST_MICROUSD
from moorage.billing.top_ups.service import check_amount
from moorage.containers.activity import SYSTEM
from moorage.kit.crypto import Keyring
from moorage.kit.errors import ConflictError, FieldError, InvalidInputError
from moorage.kit.ids import new_top_up_id
from moorage.kit.money import format_usd
from moorage.kit.settings import Settings
from moorage.ledger.spending_repository import this_month
from moorage.organizations.access import OrganizationAccess
from moorage.organizations.audit.repository import record_audit

HIGHEST_CAP_MICROUSD = 10 * MOST_MICROUSD
CALLED_OFF = "called_off"
_WORKS = (Step.CHARGE, Step.ENOUGH)
LONGEST = timedelta(hours=23)
"""The provider remembers an idempotency key for a day. What has no answer by then is not charged again; whether it was
paid after all is asked (`cards/reconciler.py`)."""


async def show(session: AsyncSession, organization_id: str) -> AutoTopUp:
    found = await repository.find(session, organization_id)
    if found is None:
        return AutoTopUp(state="off", message="Moorage does not charge the card by itself.")
    step = next_step(found.policy, found.situation, found.now)
    again_at = tries_again_at(found.situation.failures_at)
    return AutoTopUp(
        state="on" if step in _WORKS else step.value,
        message=words.step_sentence(step, found.policy, again_at),
        threshold_microusd=found.policy.threshold_microusd,
        amount_microusd=found.policy.amount_microusd,
        monthly_cap_microusd=found.policy.monthly_cap_microusd,
        charged_this_month_microusd=found.situation.charged_microusd,
        tries_again_at=again_at,
    )


async def will_charge(session: AsyncSession, organization_id: str) -> bool:
    """Whether more credit comes by itself, as far as one can tell."""
    found = await repository.find(session, organization_id)
    return found is not None and next_step(found.policy, found.situation, found.now) in _WORKS


async def agree(session: AsyncSession, access: OrganizationAccess, wanted: AutoTopUpChange) -> None:
    """Also what switches it on again after it was paused."""
    check_amount("amount_microusd", wanted.amount_microusd)
    check_amount("threshold_microusd", wanted.threshold_microusd, least=CENT_MICROUSD)
    if not wanted.amount_microusd <= wanted.monthly_cap_microusd <= HIGHEST_CAP_MICROUSD:
        problem = f"must be from the amount of one charge to {format_usd(HIGHEST_CAP_MICROUSD)}"
        fields = (FieldError("monthly_cap_microusd", problem),)
        raise InvalidInputError(f"The monthly cap {problem}.", fields=fields)
    policy = Policy(wanted.threshold_microusd, wanted.amount_microusd, wanted.monthly_cap_microusd)
    organization_id = access.organization.id
    found = await repository.find(session, organization_id, lock=True)
    if found is not None and found.policy == policy and found.situation.is_well:
        return
    await repository.put_policy(session, organization_id, policy, access.actor.id)
    found = await repository.find(session, organization_id)
    if found is None or not found.situation.has_card:
        raise ConflictError(
            "There is no saved card to charge. Save one first: under Billing, or with "
            "`moor billing card --save`.",
            code="no_saved_card",
        )
    record_audit(
        session,
        organization_id,
        actor=access.actor.id,
        action="billing.auto_top_up",
        target=organization_id,
        **wanted.model_dump(),
    )


async def call_off(session: AsyncSession, organization_id: str, actor: str) -> None:
    """A charge that is under way may still come through; then it is credit as any other."""
    if not await repository.remove_policy(session, organization_id):
        return
    payment = await repository.open_payment(session, organization_id)
    if payment is not None:
        await repository.mark_failed(session, payment.id, CALLED_OFF)
    record_audit(
        session, organization_id, actor=actor, action="billing.auto_top_up_off", target=organization_id
    )


async def payment_to_make(
    session: AsyncSession, organization_id: str, keyring: Keyring, settings: Settings
) -> CardPaymentRow | None:
    """The one under way, or a new one if it is time; its row is there before the provider hears of it."""
    found = await repository.find(session, organization_id, lock=True)
    if found is None:
        return None
    under_way = await repository.open_payment(session, organization_id)
    if under_way is not None and under_way.created_at > found.now - LONGEST:
        return under_way
    if under_way is not None:
        why = "the card payments' provider did not answer."
        await note_failure(session, under_way, "no_answer", why, None, keyring, settings)
        return None
    step = next_step(found.policy, found.situation, found.now)
    if step is Step.CAPPED and await repository.mark_cap_told(
        session, organization_id, await this_month(session)
    ):
        subject, text = words.capped_mail(found.policy, billing_url(settings))
        await tell_admins(session, keyring, organization_id, subject=subject, text=text)
    if step is not Step.CHARGE or found.card is None:
        return None
    row = CardPaymentRow(
        id=new_top_up_id(),
        organization_id=organization_id,
        amount_microusd=found.policy.amount_microusd,
        requested_by=SYSTEM,
        automatic=True,
        payment_method_id=found.card.payment_method_id,
    )
    await add_payment(session, row)
    record_audit(
        session,
        organization_id,
        actor=SYSTEM,
        action="billing.top_up",
        target=row.id,
        method="card",
        automatic=True,
        amount_microusd=row.amount_microusd,
    )
    return row


async def note_failure(
    session: AsyncSession,
    payment: CardPaymentRow,
    code: str,
    why: str,
    page_url: str | None,
    keyring: Keyring,
    settings: Settings,
) -> None:
    if not await repository.mark_failed(session, payment.id, code):
        return
    record_audit(
        session,
        payment.organization_id,
        actor=SYSTEM,
        action="billing.top_up_failed",
        target=payment.id,
        code=code,
        amount_microusd=payment.amount_microusd,
    )
    found = await repository.find(session, payment.organization_id)
    again_at = tries_again_at(found.situation.failures_at) if found is not None else None
    subject, text = words.failed_mail(payment.amount_microusd, why, again_at, page_url, billing_url(settings))
    await tell_admins(session, keyring, payment.organization_id, subject=subject, text=text)


def billing_url(settings: Settings) -> str:
    return f"{settings.api_base_url}/billing"

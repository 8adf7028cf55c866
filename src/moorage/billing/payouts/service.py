"""What machines earned is sent to their owner's bank account: asked for by who may manage billing, sent by the operator.

The row of the account is the lock: asking, deciding and changing it happen one after the other. What is sent is booked when the
operator confirms it. What a bank takes back before that lowers what is payable, and then nothing is confirmed by itself.
"""

import json
import re
from datetime import datetime, timedelta

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.earnings.balance_repository import earnings_balance
from moorage.billing.mails import tell_admins
from moorage.billing.payouts import repository
from moorage.billing.payouts.models import PayoutAccountRow, PayoutRow
from moorage.billing.payouts.schemas import PayoutAccountWrite, PayoutConfirm
from moorage.billing.payouts.words import account_changed_mail, confirmed_mail, refused_mail, requested_mail
from moorage.billing.top_ups.amounts import CENT_MICROUSD
from moorage.identity.actor import UserActor
from moorage.kit.crypto import Keyring, keyed_hash
from moorage.kit.database import database_now
from moorage.kit.errors import (
    ConflictError,
    FieldError,
    InvalidInputError,
    NotFoundError,
    TooManyRequestsError,
)
from moorage.kit.ids import new_payout_id
from moorage.kit.money import format_usd
from moorage.kit.settings import Settings
from moorage.ledger.accounts import PAYOUTS, Kind, earnings_of
from moorage.ledger.repository import Posting, post
from moorage.notifications.repository import queue_mail
from moorage.organizations.audit.repository import count_lately, record_audit
from moorage.organizations.models import OrganizationRow

CHANGES_PER_DAY = 10
"""By one person: all admins get a mail each time."""
_CHANGE = "billing.payout_account"
_SHOWN_CHARACTERS = 4
_ACCOUNT_CHANGED = "The account that it was to be sent to was changed."


async def change_account(
    session: AsyncSession,
    keyring: Keyring,
    settings: Settings,
    actor: UserActor,
    organization: OrganizationRow,
    wanted: PayoutAccountWrite,
) -> PayoutAccountRow:
    """All admins are told, and nothing is sent for a while. What was asked for is not sent to the account from before either."""
    account = _bare(wanted.account)
    if len(account) < _SHOWN_CHARACTERS:
        problem = "must be an IBAN or the number of an account"
        raise InvalidInputError(f"The account {problem}.", fields=(FieldError("account", problem),))
    await repository.lock_account(session, organization.id)
    # Of this person: whoever puts another's change right does not wait for them.
    changes = await count_lately(session, organization.id, [_CHANGE], timedelta(days=1), actor=actor.id)
    if changes >= CHANGES_PER_DAY:
        raise TooManyRequestsError(
            f"You changed the bank account {changes} times within a day. Change it again tomorrow.",
            retry_after_s=86_400,
            code="too_many_changes",
        )
    row = PayoutAccountRow(
        organization_id=organization.id,
        sealed_details=keyring.encrypt(
            json.dumps({**wanted.model_dump(), "account": account}).encode(), _context(organization.id)
        ),
        shown_account=account[-_SHOWN_CHARACTERS:],
        changed_by=actor.id,
    )
    await repository.store_account(session, row)
    waiting = await repository.find_requested(session, organization.id)
    if waiting is not None:
        _decide(waiting, "refused", reason=_ACCOUNT_CHANGED)
    record_audit(
        session,
        organization.id,
        actor=actor.id,
        action=_CHANGE,
        target=organization.id,
        account=row.shown_account,
    )
    stored = await repository.lock_account(session, organization.id)
    assert stored is not None, "it was just written"
    frozen_until = stored.changed_at + timedelta(days=settings.payout_freeze_days)
    subject, text = account_changed_mail(organization.name, stored.shown_account, actor.email, frozen_until)
    await tell_admins(session, keyring, organization.id, subject=subject, text=text)
    return stored


async def request_payout(
    session: AsyncSession,
    keyring: Keyring,
    settings: Settings,
    actor: UserActor,
    organization: OrganizationRow,
) -> PayoutRow:
    """Of all that is payable, in whole cents."""
    account = await repository.lock_account(session, organization.id)
    if account is None:
        raise ConflictError(
            "Name a bank account first, with `moor earnings account` or in the console.",
            code="no_payout_account",
        )
    _refuse_frozen(await frozen_until(session, settings, account))
    if await repository.find_requested(session, organization.id) is not None:
        raise ConflictError("An earlier payout has not been sent yet.", code="payout_requested")
    balance = await earnings_balance(session, organization.id)
    amount_microusd = balance.payable_microusd // CENT_MICROUSD * CENT_MICROUSD
    if amount_microusd < settings.least_payout_microusd:
        raise ConflictError(
            f"{format_usd(balance.payable_microusd)} can be sent now, but the smallest payout is "
            f"{format_usd(settings.least_payout_microusd)}. {format_usd(balance.held_microusd)} is still "
            "held.",
            code="payout_too_small",
        )
    row = PayoutRow(
        id=new_payout_id(),
        organization_id=organization.id,
        amount_microusd=amount_microusd,
        state="requested",
        sealed_details=account.sealed_details,
        shown_account=account.shown_account,
        requested_by=actor.id,
    )
    await repository.add_payout(session, row)
    account_number = details_of(keyring, account)["account"]
    await repository.note_asked_for(session, organization.id, _hash(keyring, account_number))
    record_audit(
        session,
        organization.id,
        actor=actor.id,
        action="billing.payout",
        target=row.id,
        amount_microusd=amount_microusd,
        account=row.shown_account,
    )
    subject, text = requested_mail(organization.name, row.id, amount_microusd)
    await queue_mail(session, keyring, to=settings.operator_email, subject=subject, text=text)
    return row


async def confirm_payout(
    session: AsyncSession,
    keyring: Keyring,
    settings: Settings,
    operator: UserActor,
    payout_id: str,
    said: PayoutConfirm,
) -> PayoutRow:
    """It is sent. Not where it is no longer covered, or was refused meanwhile, unless it was sent all the same."""
    row, account = await _locked(session, payout_id, also_refused=said.sent)
    if not said.sent:
        _refuse_frozen(await frozen_until(session, settings, account))
        covered = await covered_microusd(session, row)
        if covered < row.amount_microusd:
            raise ConflictError(
                f"Of {format_usd(row.amount_microusd)} requested, only {format_usd(covered)} can be sent. "
                "The rest has since been taken back. Refuse the payout, so that the organization can ask "
                "again. If you have sent it already, confirm it as `sent`; later earnings make up the "
                "difference.",
                code="payout_not_covered",
            )
    _decide(row, "confirmed", reference=said.reference)
    await post(
        session,
        Posting(
            key=f"payout:{row.id}",
            kind=Kind.PAYOUT,
            organization_id=row.organization_id,
            source=earnings_of(row.organization_id),
            target=PAYOUTS,
            amount_microusd=row.amount_microusd,
            details={"payout_id": row.id, "reference": said.reference},
        ),
    )
    _record_decision(session, operator, row, "billing.payout_confirm", reference=said.reference)
    subject, text = confirmed_mail(row.amount_microusd, row.shown_account, said.reference)
    await tell_admins(session, keyring, row.organization_id, subject=subject, text=text)
    return await _written(session, row)


async def refuse_payout(
    session: AsyncSession, keyring: Keyring, operator: UserActor, payout_id: str, reason: str
) -> PayoutRow:
    """It is not sent, and can be asked for again."""
    row, _ = await _locked(session, payout_id)
    _decide(row, "refused", reason=reason)
    _record_decision(session, operator, row, "billing.payout_refuse", reason=reason)
    subject, text = refused_mail(row.amount_microusd, reason)
    await tell_admins(session, keyring, row.organization_id, subject=subject, text=text)
    return await _written(session, row)


async def covered_microusd(session: AsyncSession, row: PayoutRow) -> int:
    """How much of one that waits is payable now."""
    balance = await earnings_balance(session, row.organization_id)
    left = balance.matured_microusd - balance.paid_microusd
    return min(max(left, 0), row.amount_microusd)


async def frozen_until(
    session: AsyncSession, settings: Settings, account: PayoutAccountRow
) -> datetime | None:
    """None where it is not, or not any more."""
    until = account.changed_at + timedelta(days=settings.payout_freeze_days)
    return until if until > await database_now(session) else None


def details_of(keyring: Keyring, row: PayoutRow | PayoutAccountRow) -> dict[str, str]:
    """`holder`, `account` and `bank`: for the operator's eyes."""
    opened: dict[str, str] = json.loads(keyring.decrypt(row.sealed_details, _context(row.organization_id)))
    return opened


async def _locked(
    session: AsyncSession, payout_id: str, *, also_refused: bool = False
) -> tuple[PayoutRow, PayoutAccountRow]:
    """One that is to be decided. `also_refused`: or was refused, by somebody who changed the account, say."""
    found = await repository.find_payout(session, payout_id)
    if found is None:
        raise NotFoundError("There is no such payout.")
    account = await repository.lock_account(session, found.organization_id)
    assert account is not None, "a payout was asked for with one, and none is ever removed"
    row = await repository.find_payout(session, payout_id)  # as it is under the lock
    assert row is not None, "payouts are never removed"
    if row.state != "requested" and not (also_refused and row.state == "refused"):
        raise ConflictError(f"The payout is already {row.state}.", code=f"payout_{row.state}")
    return row, account


def _refuse_frozen(until: datetime | None) -> None:
    if until is not None:
        raise ConflictError(
            f"The bank account was changed recently. Nothing is sent before {until:%Y-%m-%d %H:%M} UTC.",
            code="payouts_frozen",
        )


def _decide(row: PayoutRow, state: str, *, reference: str | None = None, reason: str | None = None) -> None:
    row.state, row.reference, row.reason, row.decided_at = state, reference, reason, func.now()


async def _written(session: AsyncSession, row: PayoutRow) -> PayoutRow:
    await session.flush()
    await session.refresh(row)
    return row


def _record_decision(
    session: AsyncSession, operator: UserActor, row: PayoutRow, action: str, **details: str
) -> None:
    record_audit(
        session,
        row.organization_id,
        actor=operator.id,
        action=action,
        target=row.id,
        amount_microusd=row.amount_microusd,
        **details,
    )


def _bare(account: str) -> str:
    """However it is written, it is the same account."""
    return re.sub(r"[^A-Z0-9]", "", account.upper())


def _hash(keyring: Keyring, account: str) -> bytes:
    """By the oldest key, which stays the same when another is added: there are few enough accounts to try them all."""
    return keyed_hash(keyring.keys[-1][1], f"payout-account:{account}")


def _context(organization_id: str) -> str:
    return f"payout_accounts.sealed_details:{organization_id}"

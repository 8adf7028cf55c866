"""Money that comes in by bank transfer, and credit that the operator gives."""

import secrets

from sqlalchemy import func
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.mails import tell_admins
from moorage.billing.top_ups import repository
from moorage.billing.top_ups.amounts import CENT_MICROUSD, amount_problem
from moorage.billing.top_ups.models import BankTransferRow
from moorage.billing.top_ups.schemas import CreditCreate, TopUpCreate
from moorage.identity.actor import UserActor
from moorage.kit.crypto import Keyring
from moorage.kit.errors import ConflictError, FieldError, InvalidInputError, NotFoundError
from moorage.kit.ids import new_credit_id, new_top_up_id
from moorage.kit.money import format_usd
from moorage.kit.settings import Settings
from moorage.ledger.accounts import BANK, GRANTS, INITIAL_CREDIT_MICROUSD, Kind, credit_of
from moorage.ledger.initial_credit_repository import give_approved
from moorage.ledger.models import TransactionRow
from moorage.ledger.repository import Posting, post
from moorage.organizations.access import hold_as_member
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.caps import TRANSFERS, require_room
from moorage.organizations.models import OrganizationRow
from moorage.organizations.repository import find_organization, hold_organization

MOST_PENDING_TRANSFERS = 20
"""Of an organization: the operator looks through all of them for whose money has arrived."""
_REFERENCE_ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Nothing that is taken for something else when it is typed off a screen."""


def instructions_of(settings: Settings, transfer: str) -> str | None:
    return settings.bank_details_local if transfer == "local" else settings.bank_details_international


async def announce_transfer(
    session: AsyncSession,
    actor: UserActor,
    organization: OrganizationRow,
    wanted: TopUpCreate,
    settings: Settings,
) -> BankTransferRow:
    check_amount("amount_microusd", wanted.amount_microusd)
    if instructions_of(settings, wanted.transfer) is None:
        raise ConflictError(
            f"Bank transfers ({wanted.transfer}) are not set up here. Ask {settings.support_contact}.",
            code="payment_method_not_set_up",
        )
    await require_room(session, TRANSFERS, organization.id, repository.count_pending, MOST_PENDING_TRANSFERS)
    await hold_as_member(session, organization.id, actor.user_id)
    row = BankTransferRow(
        id=new_top_up_id(),
        organization_id=organization.id,
        reference=_new_reference(),
        transfer=wanted.transfer,
        amount_microusd=wanted.amount_microusd,
        state="pending",
        requested_by=actor.id,
    )
    await repository.add_transfer(session, row)
    record_audit(
        session,
        organization.id,
        actor=actor.id,
        action="billing.top_up",
        target=row.id,
        method="bank_transfer",
        amount_microusd=row.amount_microusd,
    )
    return row


async def confirm_transfer(
    session: AsyncSession, operator: UserActor, transfer_id: str, received_microusd: int, keyring: Keyring
) -> BankTransferRow:
    """What arrived becomes credit, whatever was announced."""
    check_amount("received_microusd", received_microusd, least=CENT_MICROUSD)
    row = await _pending(session, transfer_id)
    row.state, row.received_microusd, row.decided_at = "confirmed", received_microusd, func.now()
    await post(
        session,
        Posting(
            key=f"bank-transfer:{row.id}",
            kind=Kind.BANK_TRANSFER,
            organization_id=row.organization_id,
            source=BANK,
            target=credit_of(row.organization_id),
            amount_microusd=received_microusd,
            details={"top_up_id": row.id, "reference": row.reference},
        ),
    )
    _record_decision(session, operator, row, "billing.transfer_confirm")
    await tell_admins(
        session,
        keyring,
        row.organization_id,
        subject=f"{format_usd(received_microusd)} arrived",
        text=f"Your bank transfer {row.reference} arrived. {format_usd(received_microusd)} was added to your credit.\n",
    )
    await session.flush()
    await session.refresh(row)
    return row


async def expire_transfer(session: AsyncSession, operator: UserActor, transfer_id: str) -> BankTransferRow:
    """Nothing arrived, and nobody waits for it any more."""
    row = await _pending(session, transfer_id)
    row.state, row.decided_at = "expired", func.now()
    _record_decision(session, operator, row, "billing.transfer_expire")
    await session.flush()
    await session.refresh(row)
    return row


async def give_credit(session: AsyncSession, operator: UserActor, wanted: CreditCreate) -> TransactionRow:
    check_amount("amount_microusd", wanted.amount_microusd, least=CENT_MICROUSD)
    await _hold(session, wanted.organization_id)
    posting = Posting(
        key=f"credit:{new_credit_id()}",
        kind=Kind.CREDIT,
        organization_id=wanted.organization_id,
        source=GRANTS,
        target=credit_of(wanted.organization_id),
        amount_microusd=wanted.amount_microusd,
        details={"reason": wanted.reason, "given_by": operator.id},
    )
    await post(session, posting)
    row = await repository.find_transaction(session, posting.key)
    record_audit(
        session,
        wanted.organization_id,
        actor=operator.id,
        action="billing.credit",
        target=row.id,
        amount_microusd=wanted.amount_microusd,
        reason=wanted.reason,
    )
    return row


async def approve_initial_credit(
    session: AsyncSession, operator: UserActor, organization_id: str
) -> TransactionRow:
    """The credit to begin with, for whoever waits for it."""
    await _hold(session, organization_id)
    key = await give_approved(session, organization_id)
    if key is None:
        raise ConflictError(
            "This organization does not wait for initial credit: it has had it, its owner's mailbox has had "
            "it, or it was not created at sign-up. Give other credit with `moor operator credit`.",
            code="initial_credit_not_waiting",
        )
    row = await repository.find_transaction(session, key)
    record_audit(
        session,
        organization_id,
        actor=operator.id,
        action="billing.initial_credit",
        target=row.id,
        amount_microusd=INITIAL_CREDIT_MICROUSD,
    )
    return row


async def _hold(session: AsyncSession, organization_id: str) -> None:
    """Whoever deletes it meanwhile waits, and gives up nothing unseen."""
    if await find_organization(session, organization_id) is None:
        raise NotFoundError("There is no such organization.")
    if not await hold_organization(session, organization_id):
        raise ConflictError(
            "This organization was deleted: nobody could use what it is given. Send back what arrived for it.",
            code="organization_deleted",
        )


def check_amount(name: str, amount_microusd: int, **limits: int) -> None:
    problem = amount_problem(amount_microusd, **limits)
    if problem is not None:
        raise InvalidInputError(f"The amount {problem}.", fields=(FieldError(name, problem),))


async def _pending(session: AsyncSession, transfer_id: str) -> BankTransferRow:
    row = await repository.lock_transfer(session, transfer_id)
    if row is None:
        raise NotFoundError("There is no such bank transfer.")
    if row.state != "pending":
        raise ConflictError(
            f"The transfer is already {row.state}. If money arrives for it now, give it as credit.",
            code=f"transfer_{row.state}",
        )
    return row


def _record_decision(session: AsyncSession, operator: UserActor, row: BankTransferRow, action: str) -> None:
    record_audit(
        session,
        row.organization_id,
        actor=operator.id,
        action=action,
        target=row.id,
        amount_microusd=row.amount_microusd,
        received_microusd=row.received_microusd,
    )


def _new_reference() -> str:
    parts = ("".join(secrets.choice(_REFERENCE_ALPHABET) for _ in range(4)) for _ in range(3))
    return "MOOR-" + "-".join(parts)

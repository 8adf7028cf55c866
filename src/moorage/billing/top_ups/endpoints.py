from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends

from moorage.billing.cards.access import OptionalCardProvider, set_up
from moorage.billing.cards.models import CardPaymentRow
from moorage.billing.cards.repository import find_payment, list_payments
from moorage.billing.cards.service import ask, begin_payment
from moorage.billing.top_ups import repository, service
from moorage.billing.top_ups.models import BankTransferRow
from moorage.billing.top_ups.schemas import TopUp, TopUpCreate
from moorage.kit.errors import NotFoundError
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.settings import Settings
from moorage.kit.web import TheDatabase, TheKeyring, TheSession, TheSettings
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["billing"])
Payer = Annotated[OrganizationAccess, Depends(organization_with(Permission.BILLING_MANAGE))]
ASKED_BY_A_PERSON = timedelta(seconds=10)
"""Whoever comes back from the payment's page waits for it; the next question of ours comes soon after."""


@router.post("/organizations/{organization_id}/billing/top-ups", summary="Add credit", status_code=201)
async def create_top_up(
    body: TopUpCreate,
    access: Payer,
    session: TheSession,
    database: TheDatabase,
    settings: TheSettings,
    cards: OptionalCardProvider,
) -> TopUp:
    """For a card, the answer has the provider's page for entering it. For a bank transfer, the answer has the account
    and the reference; the operator confirms what arrives."""
    if body.method == "card":
        provider = set_up(cards, settings)
        await session.commit()  # nothing stays open while somebody else is asked
        payment, checkout = await begin_payment(
            database, provider, access.actor, access.organization, body.amount_microusd
        )
        return shown_payment(payment, checkout.url)
    row = await service.announce_transfer(session, access.actor, access.organization, body, settings)
    return shown_transfer(row, settings)


@router.get("/organizations/{organization_id}/billing/top-ups", summary="List top-ups")
async def list_top_ups(
    access: Payer,
    session: TheSession,
    settings: TheSettings,
    paging: Annotated[PageRequest, Depends(page_request)],
) -> Page[TopUp]:
    """Lists top-ups by card and by bank transfer, newest first."""
    organization_id = access.organization.id
    transfers = await repository.list_transfers(session, paging, organization_id=organization_id)
    payments = await list_payments(session, organization_id, paging)
    shown = [shown_transfer(row, settings) for row in transfers]
    shown += [shown_payment(row, row.checkout_url) for row in payments]
    newest = sorted(shown, key=lambda item: (item.created_at, item.id), reverse=True)[: paging.limit + 1]
    return page_of(newest, paging, lambda item: Position(item.created_at, item.id))


@router.get("/organizations/{organization_id}/billing/top-ups/{top_up_id}", summary="Get a top-up")
async def get_top_up(
    top_up_id: str,
    access: Payer,
    session: TheSession,
    database: TheDatabase,
    settings: TheSettings,
    keyring: TheKeyring,
    cards: OptionalCardProvider,
) -> TopUp:
    """Returns the state of a top-up. If the outcome of a card payment is not known yet, Moorage asks the provider."""
    organization_id = access.organization.id
    payment = await find_payment(session, organization_id, top_up_id)
    if payment is None:
        transfer = await repository.find_transfer_of(session, organization_id, top_up_id)
        if transfer is None:
            raise NotFoundError("There is no such top-up.")
        return shown_transfer(transfer, settings)
    if payment.paid_at is not None or cards is None:
        return shown_payment(payment, payment.checkout_url)
    await session.rollback()  # nothing stays open while somebody else is asked
    await ask(database.transaction, cards, top_up_id, keyring, settings, rest=ASKED_BY_A_PERSON)
    async with database.reading() as fresh:
        known = await find_payment(fresh, organization_id, top_up_id)
    assert known is not None, "payments are never removed"
    return shown_payment(known, known.checkout_url)


def shown_payment(row: CardPaymentRow, checkout_url: str | None) -> TopUp:
    paid = row.paid_at is not None
    return TopUp(
        id=row.id,
        organization_id=row.organization_id,
        method="card",
        state="confirmed" if paid else "failed" if row.failed_at and not checkout_url else "pending",
        amount_microusd=row.amount_microusd,
        received_microusd=row.amount_microusd if paid else None,
        checkout_url=None if paid else checkout_url,
        automatic=row.automatic,
        created_at=row.created_at,
        decided_at=row.paid_at or row.failed_at,
    )


def shown_transfer(row: BankTransferRow, settings: Settings) -> TopUp:
    instructions = service.instructions_of(settings, row.transfer) if row.state == "pending" else None
    names = set(TopUp.model_fields) - {"method", "instructions", "checkout_url", "automatic"}
    values = {name: getattr(row, name) for name in names}
    return TopUp(method="bank_transfer", instructions=instructions, **values)

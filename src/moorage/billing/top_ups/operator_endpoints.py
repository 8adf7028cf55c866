"""Money as the operator handles it."""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query

from moorage.billing.top_ups import repository, service
from moorage.billing.top_ups.endpoints import shown_transfer
from moorage.billing.top_ups.schemas import Credit, CreditCreate, TopUp, TransferConfirm
from moorage.billing.views.endpoints import TheDays
from moorage.billing.views.repository import Moved, revenue_by_day
from moorage.billing.views.schemas import Revenue, RevenueDay
from moorage.identity.authentication import TheOperator
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheKeyring, TheSession, TheSettings
from moorage.ledger.accounts import INITIAL_CREDIT_MICROUSD, Kind
from moorage.ledger.models import TransactionRow

router = APIRouter(tags=["operator"])
Paging = Annotated[PageRequest, Depends(page_request)]


@router.get("/operator/bank-transfers", summary="List bank transfers")
async def list_bank_transfers(
    _: TheOperator,
    session: TheSession,
    settings: TheSettings,
    paging: Paging,
    state: Annotated[Literal["pending", "confirmed", "expired"] | None, Query()] = None,
) -> Page[TopUp]:
    """Lists the announced bank transfers of all organizations, newest first."""
    rows = await repository.list_transfers(session, paging, state=state)
    shown = [shown_transfer(row, settings) for row in rows]
    return page_of(shown, paging, lambda item: Position(item.created_at, item.id))


@router.post("/operator/bank-transfers/{transfer_id}/confirm", summary="Confirm a bank transfer")
async def confirm_bank_transfer(
    transfer_id: str,
    body: TransferConfirm,
    operator: TheOperator,
    session: TheSession,
    settings: TheSettings,
    keyring: TheKeyring,
) -> TopUp:
    """Confirms that the money arrived. The amount that arrived becomes credit, even if it is more or less than
    announced."""
    row = await service.confirm_transfer(session, operator, transfer_id, body.received_microusd, keyring)
    return shown_transfer(row, settings)


@router.post("/operator/bank-transfers/{transfer_id}/expire", summary="Expire a bank transfer")
async def expire_bank_transfer(
    transfer_id: str, operator: TheOperator, session: TheSession, settings: TheSettings
) -> TopUp:
    """Closes a transfer that will not arrive. If the money comes later, give it as credit."""
    row = await service.expire_transfer(session, operator, transfer_id)
    return shown_transfer(row, settings)


@router.get("/operator/credits", summary="List given credits")
async def list_credits(_: TheOperator, session: TheSession, paging: Paging) -> Page[Credit]:
    """Lists the credit that the operator gave, newest first."""
    rows = await repository.list_credits(session, paging)
    shown = [_credit(row, amount_microusd) for row, amount_microusd in rows]
    return page_of(shown, paging, lambda item: Position(item.at, item.id))


@router.post("/operator/credits", summary="Give credit", status_code=201)
async def give_credit(body: CreditCreate, operator: TheOperator, session: TheSession) -> Credit:
    """Gives an organization credit that nobody paid for. Its members see the reason."""
    return _credit(await service.give_credit(session, operator, body), body.amount_microusd)


@router.post(
    "/operator/organizations/{organization_id}/initial-credit",
    summary="Approve the initial credit",
    status_code=201,
)
async def approve_initial_credit(organization_id: str, operator: TheOperator, session: TheSession) -> Credit:
    """Gives the initial credit to an organization that waits for it, once."""
    row = await service.approve_initial_credit(session, operator, organization_id)
    return _credit(row, INITIAL_CREDIT_MICROUSD)


@router.get("/operator/revenue", summary="Get revenue")
async def get_revenue(_: TheOperator, session: TheSession, days: TheDays) -> Revenue:
    """Returns revenue by UTC day, newest first. Days without movements are left out."""
    found = await revenue_by_day(session, *days)
    return Revenue(first=days[0], last=days[1], items=[_revenue(day, moved) for day, moved in found])


def _revenue(day: date, moved: Mapping[str, Moved]) -> RevenueDay:
    def amount(*kinds: Kind) -> int:
        return sum(moved.get(kind, Moved()).amount_microusd for kind in kinds)

    return RevenueDay(
        day=day,
        usage_microusd=amount(Kind.USAGE),
        hours=moved.get(Kind.USAGE, Moved()).times,
        card_microusd=amount(Kind.CARD_TOP_UP),
        bank_transfer_microusd=amount(Kind.BANK_TRANSFER),
        granted_microusd=amount(Kind.INITIAL_CREDIT, Kind.CREDIT),
        refunded_microusd=amount(Kind.REFUND, Kind.DISPUTE) - amount(Kind.REFUND_FAILED, Kind.DISPUTE_WON),
    )


def _credit(row: TransactionRow, amount_microusd: int) -> Credit:
    return Credit(
        id=row.id,
        at=row.at,
        organization_id=row.organization_id,
        amount_microusd=amount_microusd,
        reason=row.details.get("reason", "Initial credit"),
    )

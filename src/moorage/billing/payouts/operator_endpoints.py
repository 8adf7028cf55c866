"""Payouts as the operator handles them."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.earnings.service import void_earnings
from moorage.billing.payouts import repository, service
from moorage.billing.payouts.endpoints import shown_payout
from moorage.billing.payouts.models import PayoutRow
from moorage.billing.payouts.schemas import EarningsVoid, OperatorPayout, Payout, PayoutConfirm, PayoutRefuse
from moorage.identity.authentication import TheOperator
from moorage.kit.crypto import Keyring
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.settings import Settings
from moorage.kit.web import TheKeyring, TheSession, TheSettings

router = APIRouter(tags=["operator"])


@router.get("/operator/payouts", summary="List all payouts")
async def list_all_payouts(
    _: TheOperator,
    session: TheSession,
    settings: TheSettings,
    keyring: TheKeyring,
    paging: Annotated[PageRequest, Depends(page_request)],
    state: Annotated[Literal["requested", "confirmed", "refused"] | None, Query()] = None,
) -> Page[OperatorPayout]:
    """Lists payouts of all organizations, newest first. Open ones say where to send the money and how much is still
    covered."""
    rows = await repository.list_payouts(session, paging, state=state)
    shown = [await _shown(session, settings, keyring, row, name) for row, name in rows]
    return page_of(shown, paging, lambda item: Position(item.created_at, item.id))


@router.post("/operator/payouts/{payout_id}/confirm", summary="Confirm a payout")
async def confirm_payout(
    payout_id: str,
    body: PayoutConfirm,
    operator: TheOperator,
    session: TheSession,
    settings: TheSettings,
    keyring: TheKeyring,
) -> Payout:
    """Books a payout whose transfer was made. The organization's admins get a mail."""
    return shown_payout(await service.confirm_payout(session, keyring, settings, operator, payout_id, body))


@router.post("/operator/payouts/{payout_id}/refuse", summary="Refuse a payout")
async def refuse_payout(
    payout_id: str, body: PayoutRefuse, operator: TheOperator, session: TheSession, keyring: TheKeyring
) -> Payout:
    """Refuses a payout. The organization's admins get a mail with the reason."""
    return shown_payout(await service.refuse_payout(session, keyring, operator, payout_id, body.reason))


@router.post(
    "/operator/machines/{machine_id}/void-earnings", summary="Void a machine's earnings", status_code=204
)
async def void_machine_earnings(
    machine_id: str, body: EarningsVoid, operator: TheOperator, session: TheSession
) -> None:
    """Takes back the held earnings of a machine that is not what its owner claims."""
    await void_earnings(session, operator.id, machine_id, body.reason)


async def _shown(
    session: AsyncSession, settings: Settings, keyring: Keyring, row: PayoutRow, organization_name: str
) -> OperatorPayout:
    payout = shown_payout(row).model_dump()
    account = await repository.find_account(session, row.organization_id)
    if row.state != "requested" or account is None:
        return OperatorPayout(
            **payout,
            organization_name=organization_name,
            holder=None,
            account_number=None,
            bank=None,
            covered_microusd=None,
            frozen_until=None,
        )
    details = service.details_of(keyring, row)
    return OperatorPayout(
        **payout,
        organization_name=organization_name,
        holder=details["holder"],
        account_number=details["account"],
        bank=details["bank"],
        covered_microusd=await service.covered_microusd(session, row),
        frozen_until=await service.frozen_until(session, settings, account),
    )

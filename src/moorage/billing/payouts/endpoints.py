from typing import Annotated

from fastapi import APIRouter, Depends
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.payouts import repository, service
from moorage.billing.payouts.models import PayoutAccountRow, PayoutRow
from moorage.billing.payouts.schemas import Payout, PayoutAccount, PayoutAccountWrite
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.settings import Settings
from moorage.kit.web import TheKeyring, TheSession, TheSettings
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["earnings"])
Payer = Annotated[OrganizationAccess, Depends(organization_with(Permission.BILLING_MANAGE))]


@router.get("/organizations/{organization_id}/payout-account", summary="Get the payout account")
async def get_payout_account(access: Payer, session: TheSession, settings: TheSettings) -> PayoutAccount:
    """Returns the bank account for earnings. Only the end of its number is shown."""
    return await shown_account(
        session, settings, await repository.find_account(session, access.organization.id)
    )


@router.put("/organizations/{organization_id}/payout-account", summary="Change the payout account")
async def change_payout_account(
    body: PayoutAccountWrite,
    access: Payer,
    session: TheSession,
    settings: TheSettings,
    keyring: TheKeyring,
) -> PayoutAccount:
    """Changes the bank account for earnings. All admins get a mail, and nothing is sent there for seven days."""
    row = await service.change_account(session, keyring, settings, access.actor, access.organization, body)
    return await shown_account(session, settings, row)


@router.get("/organizations/{organization_id}/payouts", summary="List payouts")
async def list_payouts(
    access: Payer, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Page[Payout]:
    """Lists payouts, newest first."""
    rows = await repository.list_payouts(session, paging, organization_id=access.organization.id)
    shown = [shown_payout(row) for row, _ in rows]
    return page_of(shown, paging, lambda item: Position(item.created_at, item.id))


@router.post("/organizations/{organization_id}/payouts", summary="Ask for a payout", status_code=201)
async def request_payout(
    access: Payer, session: TheSession, settings: TheSettings, keyring: TheKeyring
) -> Payout:
    """Asks for everything that is payable. The operator sends it by bank transfer and confirms it. Admins then get a
    mail."""
    row = await service.request_payout(session, keyring, settings, access.actor, access.organization)
    return shown_payout(row)


def shown_payout(row: PayoutRow) -> Payout:
    names = set(Payout.model_fields) - {"account"}
    return Payout(account=row.shown_account, **{name: getattr(row, name) for name in names})


async def shown_account(
    session: AsyncSession, settings: Settings, row: PayoutAccountRow | None
) -> PayoutAccount:
    if row is None:
        return PayoutAccount(account=None, changed_at=None, frozen_until=None)
    return PayoutAccount(
        account=row.shown_account,
        changed_at=row.changed_at,
        frozen_until=await service.frozen_until(session, settings, row),
    )

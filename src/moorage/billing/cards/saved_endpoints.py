from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel

from moorage.billing.cards import saved_service
from moorage.billing.cards.access import TheCardProvider
from moorage.billing.cards.repository import find_saved_card
from moorage.kit.web import TheDatabase, TheSession
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["billing"])
Payer = Annotated[OrganizationAccess, Depends(organization_with(Permission.BILLING_MANAGE))]


class SavedCard(BaseModel):
    """All of it is null while no card is saved."""

    brand: str | None = None
    last4: str | None = None
    expires_month: int | None = None
    expires_year: int | None = None


class CardPage(BaseModel):
    checkout_url: str
    """Where the card is entered."""


@router.get("/organizations/{organization_id}/billing/card", summary="Get the saved card")
async def get_card(access: Payer, session: TheSession) -> SavedCard:
    """Returns what Moorage knows about the saved card. Only the payment provider has its number."""
    row = await find_saved_card(session, access.organization.id)
    return SavedCard.model_validate(row, from_attributes=True) if row is not None else SavedCard()


@router.post("/organizations/{organization_id}/billing/card", summary="Save a card", status_code=201)
async def save_card(
    access: Payer, session: TheSession, database: TheDatabase, provider: TheCardProvider
) -> CardPage:
    """Returns the provider's page for entering a card. Moorage charges nothing. The new card replaces the previous
    one."""
    await session.commit()  # nothing stays open while somebody else is asked
    return CardPage(checkout_url=await saved_service.begin_saving(database, provider, access))


@router.delete(
    "/organizations/{organization_id}/billing/card", summary="Remove the saved card", status_code=204
)
async def remove_card(
    access: Payer, session: TheSession, database: TheDatabase, provider: TheCardProvider
) -> None:
    """Removes the card here and at the provider, and switches automatic top-ups off."""
    await session.commit()
    await saved_service.forget(database, provider, access)

"""Saved cards: the provider keeps them; here is only whose they are and what is shown of them."""

from moorage.billing.auto_top_ups.service import call_off
from moorage.billing.cards import repository
from moorage.billing.cards.provider import CardProvider
from moorage.billing.earnings.relations_repository import note_card
from moorage.kit.database import Database, database_now
from moorage.kit.ids import new_top_up_id
from moorage.ledger.initial_credit_repository import give_for_card
from moorage.organizations.access import OrganizationAccess, hold_as_member
from moorage.organizations.audit.repository import record_audit
from moorage.organizations.repository import hold_organization


async def begin_saving(database: Database, provider: CardProvider, access: OrganizationAccess) -> str:
    """The page where the card is entered."""
    organization_id = access.organization.id
    async with database.reading() as session:
        known = await repository.find_saved_card(session, organization_id)
    customer_id = known.customer_id if known is not None else await provider.customer(organization_id)
    async with database.transaction() as session:
        await hold_as_member(session, organization_id, access.actor.user_id)
        await repository.add_customer(session, organization_id, customer_id)
        record_audit(
            session,
            organization_id,
            actor=access.actor.id,
            action="billing.card_save",
            target=organization_id,
        )
    return (await provider.begin_saving(customer_id, key=f"save:{new_top_up_id()}")).url


async def look_again(database: Database, provider: CardProvider, customer_id: str) -> None:
    """Which card is saved is asked for: events tell of the past."""
    async with database.reading() as session:
        organization_id = await repository.find_customer(session, customer_id)
        asked_at = await database_now(session)
    if organization_id is None:
        return  # The account has other customers too.
    card = await provider.saved_card(customer_id)
    async with database.transaction() as session:
        if is_kept := await hold_organization(session, organization_id):
            await repository.write_card(session, customer_id, card, asked_at)
    if not is_kept:
        # Its page was open when the organization was deleted: nobody is left who could remove the card.
        if card is not None:
            await provider.forget_cards(customer_id)
        return
    async with database.transaction() as session:
        if card is not None and card.fingerprint is not None:
            await give_for_card(session, organization_id, card.fingerprint)
            await note_card(session, organization_id, card.fingerprint)


async def forget(database: Database, provider: CardProvider, access: OrganizationAccess) -> None:
    """With it, automatic top-ups end."""
    organization_id = access.organization.id
    async with database.transaction() as session:
        known = await repository.find_saved_card(session, organization_id)
        if known is None:
            return
        await call_off(session, organization_id, access.actor.id)
        record_audit(
            session,
            organization_id,
            actor=access.actor.id,
            action="billing.card_remove",
            target=organization_id,
        )
    await provider.forget_cards(known.customer_id)
    await look_again(database, provider, known.customer_id)

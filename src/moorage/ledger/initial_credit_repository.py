"""The credit that everybody begins with: once for each mailbox, and, where a card is needed, once for each card.

What it needs is written down at sign-up, so whoever sees a card or hears the operator knows what to do.
"""

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.crypto import sha256
from moorage.kit.database import take_turn
from moorage.kit.email import mailbox
from moorage.ledger.models import InitialCreditRow
from moorage.ledger.repository import grant_initial_credit

NEEDS_OF_SETTING = {"everybody": "nothing", "card": "card", "approval": "approval"}


async def offer_initial_credit(
    session: AsyncSession, organization_id: str, user_id: str, email: str, *, needs: str
) -> None:
    """To an organization that was made at sign-up; given at once where it needs nothing."""
    about = {"organization_id": organization_id, "user_id": user_id}
    offer = insert(InitialCreditRow).values(**about, mailbox_hash=sha256(mailbox(email)), needs=needs)
    # Of two spellings that sign up at once, the second waits here for the first.
    offered = await session.execute(
        offer.on_conflict_do_nothing(index_elements=["mailbox_hash"]).returning(InitialCreditRow.needs)
    )
    if offered.first() is None:
        await session.execute(insert(InitialCreditRow).values(**about, needs="another_mailbox"))
    elif needs == "nothing":
        await _give(session, organization_id, (needs,))


async def find_initial_credit(session: AsyncSession, organization_id: str) -> InitialCreditRow | None:
    """None where the organization was not made at sign-up."""
    return await session.get(InitialCreditRow, organization_id)


async def give_for_card(session: AsyncSession, organization_id: str, fingerprint: str) -> bool:
    """False where it does not wait for a card, or another organization got it for this one. Before any account is
    locked: whoever locks both does it in this order."""
    await take_turn(session, f"initial-credit-card:{fingerprint}")
    used = select(InitialCreditRow).where(InitialCreditRow.card_fingerprint == fingerprint)
    if (await session.execute(used)).first() is not None:
        return False
    return await _give(session, organization_id, ("card",), fingerprint) is not None


async def give_approved(session: AsyncSession, organization_id: str) -> str | None:
    """The operator may give it to whoever waits for it, whatever they wait for. The key of the transaction."""
    return await _give(session, organization_id, ("nothing", "card", "approval"))


async def _give(
    session: AsyncSession, organization_id: str, needs: tuple[str, ...], fingerprint: str | None = None
) -> str | None:
    row = InitialCreditRow
    waits = (row.organization_id == organization_id) & row.given_at.is_(None) & row.needs.in_(needs)
    given = update(row).where(waits).values(given_at=func.now(), card_fingerprint=fingerprint)
    user_id = (await session.execute(given.returning(row.user_id))).scalar_one_or_none()
    return None if user_id is None else await grant_initial_credit(session, organization_id, user_id)

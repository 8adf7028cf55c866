"""SQL of who belongs together: nobody is paid for hours that they bought themselves, under whatever name."""

from datetime import datetime, timedelta

from sqlalchemy import CompoundSelect, Select, exists, intersect, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.earnings.models import CardFingerprintRow
from moorage.billing.payouts.models import PayoutAccountHashRow
from moorage.organizations.models import MemberRow, PastMembershipRow

FORMER_MEMBERS_COUNT_FOR = timedelta(days=120)
"""Before the hour: who left since then is still one of them."""


async def are_related(session: AsyncSession, one: str, other: str, hour_began_at: datetime) -> bool:
    """Whether two organizations are the same, or have a member or a card in common, or asked to be paid at one account."""
    if one == other:
        return True
    since = hour_began_at - FORMER_MEMBERS_COUNT_FOR
    in_common = (
        intersect(_people(one, since), _people(other, since)),
        intersect(_cards(one), _cards(other)),
        intersect(_accounts(one), _accounts(other)),
    )
    query = select(or_(*(exists(found.subquery().select()) for found in in_common)))
    return bool((await session.execute(query)).scalar_one())


async def note_card(session: AsyncSession, organization_id: str, fingerprint: str | None) -> None:
    """It paid with this card, or saved it."""
    if fingerprint is not None:
        values = {"organization_id": organization_id, "fingerprint": fingerprint}
        await session.execute(insert(CardFingerprintRow).values(values).on_conflict_do_nothing())


def _people(organization_id: str, since: datetime) -> CompoundSelect[str]:
    member, past = MemberRow, PastMembershipRow
    now = select(member.user_id).where(member.organization_id == organization_id)
    before = select(past.user_id).where(past.organization_id == organization_id, past.left_at > since)
    return now.union(before)


def _cards(organization_id: str) -> Select[str]:
    row = CardFingerprintRow
    return select(row.fingerprint).where(row.organization_id == organization_id)


def _accounts(organization_id: str) -> Select[bytes]:
    row = PayoutAccountHashRow
    return select(row.account_hash).where(row.organization_id == organization_id)

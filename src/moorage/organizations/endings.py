"""What ends with a right. Whoever loses projects loses the keys that they made there; whoever manages no longer, the
invitations that they sent; and nobody gets an answer again that they were given under a right they had.

Webhooks lie above this package: their delivery asks who made them (`webhooks/delivery.py`)."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.api_keys.repository import revoke_keys_made_by
from moorage.kit.idempotency import forget_answers
from moorage.organizations.invitations.repository import withdraw_invitations_by


@dataclass(frozen=True)
class Ended:
    key_ids: list[str]
    invitation_ids: list[str]


async def end_rights(
    session: AsyncSession,
    organization_id: str,
    user_id: str,
    *,
    lost_projects: Collection[str],
    managed: bool,
    revoke_keys: bool,
) -> Ended:
    """`managed`: they could invite until now, and no longer can."""
    keys = await revoke_keys_made_by(session, user_id, sorted(lost_projects)) if revoke_keys else []
    invitations = await withdraw_invitations_by(session, organization_id, user_id) if managed else []
    await forget_answers(session, user_id)
    return Ended(keys, invitations)

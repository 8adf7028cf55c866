"""Mails about money go to an organization's admins: they are the ones who can pay."""

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.crypto import Keyring
from moorage.notifications.repository import queue_mail
from moorage.organizations.members.repository import admin_addresses


async def tell_admins(
    session: AsyncSession, keyring: Keyring, organization_id: str, *, subject: str, text: str
) -> None:
    for address in await admin_addresses(session, organization_id):
        await queue_mail(session, keyring, to=address, subject=subject, text=text)

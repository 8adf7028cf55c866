"""Mails the operator which machines were lost and which came back, and owners of theirs: many in one mail, a minute after the first.

Machines that share a switch or a socket are lost together, and ten mails that say the same are read as none. Whatever happened
within the minute is told as it is when the mail is written; who was lost and is back by then is told of all the same. One that
comes and goes all day would fill the mailbox in which another's loss is to be seen: it is told of once an hour.
"""

from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.crypto import Keyring
from moorage.kit.settings import Settings
from moorage.machines import repository
from moorage.machines.states import MachineState
from moorage.machines.words import ToldMachine, losses_mail
from moorage.notifications.repository import queue_mail
from moorage.organizations.members.repository import admin_addresses

TOLD_AFTER = timedelta(minutes=1)
OFTEN = 3
"""Losses within an hour. Beyond it, a machine is no reason for a mail before the hour is over; it is named in others."""
TOLD_AFTER_OFTEN = timedelta(hours=1)


async def due_in_s(session: AsyncSession) -> float | None:
    return await repository.untold_due_in_s(session, TOLD_AFTER, OFTEN, TOLD_AFTER_OFTEN)


async def tell(session: AsyncSession, keyring: Keyring, settings: Settings) -> int:
    """One mail about all of them, to each who looks after some; of how many."""
    rows = await repository.lock_untold(session)
    if not rows:
        return 0
    by_owner: dict[str | None, list[ToldMachine]] = {}
    for row in rows:
        told = ToldMachine(row.name or row.id, MachineState(row.state), row.seen_at or row.state_since)
        by_owner.setdefault(row.owner_organization_id, []).append(told)
    for owner, machines in by_owner.items():
        subject, text = losses_mail(sorted(machines, key=lambda machine: machine.name))
        to = [settings.operator_email] if owner is None else await admin_addresses(session, owner)
        for address in to:
            await queue_mail(session, keyring, to=address, subject=subject, text=text)
    for row in rows:
        row.untold_since = None
    await session.flush()
    return len(rows)

"""Mail. Every mail goes into the outbox first; without an SMTP server the operator reads it there."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.crypto import Keyring
from moorage.kit.ids import new_mail_id
from moorage.kit.pagination import PageRequest
from moorage.notifications.models import MailRow

KEPT = timedelta(days=1)


@dataclass(frozen=True)
class Mail:
    id: str
    to: str
    subject: str
    text: str
    created_at: datetime


async def queue_mail(session: AsyncSession, keyring: Keyring, *, to: str, subject: str, text: str) -> None:
    mail_id = new_mail_id()
    plain = json.dumps({"to": to, "subject": subject, "text": text}).encode()
    session.add(MailRow(id=mail_id, sealed=keyring.encrypt(plain, _context(mail_id))))


async def list_outbox(session: AsyncSession, keyring: Keyring, page: PageRequest) -> list[Mail]:
    query = select(MailRow).where(MailRow.created_at > func.now() - KEPT)
    if page.after is not None:
        query = query.where(tuple_(MailRow.created_at, MailRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(MailRow.created_at.desc(), MailRow.id.desc()).limit(page.limit + 1)
    rows = (await session.execute(newest_first)).scalars()
    return [
        Mail(
            id=row.id, created_at=row.created_at, **json.loads(keyring.decrypt(row.sealed, _context(row.id)))
        )
        for row in rows
    ]


async def purge_outbox(session: AsyncSession) -> None:
    await session.execute(delete(MailRow).where(MailRow.created_at < func.now() - KEPT))


def _context(mail_id: str) -> str:
    return f"mails.sealed:{mail_id}"

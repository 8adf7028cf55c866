"""Mail. Every mail goes into the outbox first; without an SMTP server the operator reads it there."""

import json
from datetime import timedelta

from sqlalchemy import delete, func, select, text, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.crypto import Keyring
from moorage.kit.database import notify
from moorage.kit.ids import new_mail_id
from moorage.kit.pagination import PageRequest
from moorage.notifications.channels import MAILS
from moorage.notifications.message import Mail
from moorage.notifications.models import MailRow

KEPT = timedelta(days=1)
TRIED_FOR = timedelta(days=3)
"""A mail that the server does not take is tried again for so long."""


_ERROR_LENGTH = 500


async def queue_mail(
    session: AsyncSession, keyring: Keyring, *, to: str, subject: str, text: str, is_awaited: bool = False
) -> None:
    """`is_awaited`: somebody cannot go on without it, so it goes before all that are tried for the first time."""
    mail_id = new_mail_id()
    plain = json.dumps({"to": to, "subject": subject, "text": text}).encode()
    try_at = func.now() - TRIED_FOR if is_awaited else func.now()
    row = MailRow(id=mail_id, sealed=keyring.encrypt(plain, _context(mail_id)), next_try_at=try_at)
    session.add(row)
    await notify(session, MAILS)


async def list_outbox(session: AsyncSession, keyring: Keyring, page: PageRequest) -> list[Mail]:
    query = select(MailRow).where(MailRow.created_at > func.now() - KEPT)
    if page.after is not None:
        query = query.where(tuple_(MailRow.created_at, MailRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(MailRow.created_at.desc(), MailRow.id.desc()).limit(page.limit + 1)
    return [_opened(keyring, row) for row in (await session.execute(newest_first)).scalars()]


async def purge_outbox(session: AsyncSession, *, sends: bool) -> None:
    """What nobody will send or read any more. Where mail is sent, one that still waits for its server stays."""
    old = MailRow.created_at < func.now() - KEPT
    given_up = MailRow.created_at < func.now() - TRIED_FOR
    await session.execute(
        delete(MailRow).where(old & (MailRow.next_try_at.is_(None) | given_up) if sends else old)
    )


async def due_mails(session: AsyncSession, limit: int) -> tuple[list[str], float | None]:
    due_in_s = func.extract("epoch", MailRow.next_try_at - func.clock_timestamp())
    query = select(MailRow.id, due_in_s).where(MailRow.next_try_at.is_not(None))
    # One more than asked for: the first that is not due yet says how long to wait.
    soonest = (await session.execute(query.order_by(MailRow.next_try_at).limit(limit + 1))).all()
    keys = [key for key, in_s in soonest if in_s <= 0]
    return keys[:limit], next((float(in_s) for _, in_s in soonest if in_s > 0), None)


async def find_mail(session: AsyncSession, keyring: Keyring, mail_id: str) -> Mail | None:
    """One that is still to be sent."""
    waiting = select(MailRow).where(MailRow.id == mail_id, MailRow.next_try_at.is_not(None))
    row = (await session.execute(waiting)).scalar_one_or_none()
    return _opened(keyring, row) if row is not None else None


async def record_outcome(session: AsyncSession, mail_id: str, refusal: str | None) -> None:
    outcome = {"sent_at": func.now()} if refusal is None else {"error": refusal[:_ERROR_LENGTH]}
    values = {"next_try_at": None, "tries": MailRow.tries + 1, **outcome}
    await session.execute(update(MailRow).where(MailRow.id == mail_id).values(values))


async def postpone_mail(session: AsyncSession, mail_id: str, error: str) -> None:
    """5 s, 10 s, 20 s … an hour."""
    pause = func.least(5 * func.power(2, func.least(MailRow.tries, 10)), 3600) * text("interval '1 second'")
    await session.execute(
        update(MailRow)
        .where(MailRow.id == mail_id)
        .values(tries=MailRow.tries + 1, next_try_at=func.now() + pause, error=error[:_ERROR_LENGTH])
    )


def _opened(keyring: Keyring, row: MailRow) -> Mail:
    plain = json.loads(keyring.decrypt(row.sealed, _context(row.id)))
    return Mail(id=row.id, created_at=row.created_at, **plain)


def _context(mail_id: str) -> str:
    return f"mails.sealed:{mail_id}"

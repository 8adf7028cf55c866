"""Sends what is in the outbox through the operator's mail server.

Purpose: every mail is handed to the server once, as soon as it was committed.
Invariants: a mail leaves the queue only when the server took it or refused it for good; no transaction is open
while the server is spoken to.
When it fails: the mail waits, longer each time, for up to three days; others go on. A crash between the server's
answer and our note of it sends the mail again, with the same Message-ID.
"""

from dataclasses import dataclass

import aiosmtplib
import structlog

from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.notifications import repository
from moorage.notifications.channels import MAILS
from moorage.notifications.message import Mail, compose
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

_SEND_TIMEOUT_S = 30.0


@dataclass
class MailDelivery:
    database: Database
    keyring: Keyring
    settings: Settings
    clock: Clock
    name: str = "mail"
    channels: tuple[str, ...] = (MAILS,)

    async def due(self, limit: int) -> Due:
        if self.settings.smtp_host is None:
            return Due([], None)
        async with self.database.reading() as session:
            keys, next_in_s = await repository.due_mails(session, limit)
        return Due(keys, next_in_s)

    async def reconcile(self, key: str, lease: Lease) -> None:
        async with self.database.reading() as session:
            mail = await repository.find_mail(session, self.keyring, key)
        if mail is None:
            return
        lease.check()
        refusal = await self._send(mail)
        async with self.database.transaction() as session:
            await lease.guard(session)
            await repository.record_outcome(session, key, refusal)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            await repository.postpone_mail(session, key, str(error))

    async def lead(self, lease: Lease) -> None:
        return None

    async def _send(self, mail: Mail) -> str | None:
        """None when the server took it, else its words if it will never take it. Anything else is raised."""
        settings = self.settings
        sender = settings.mail_from or settings.operator_email
        message = compose(mail, sender, message_id_domain=sender.rpartition("@")[2])
        password = settings.smtp_password
        try:
            await aiosmtplib.send(
                message,
                hostname=settings.smtp_host,
                port=settings.smtp_port,
                username=settings.smtp_username,
                password=password.get_secret_value() if password is not None else None,
                use_tls=settings.smtp_security == "tls",
                start_tls=settings.smtp_security == "starttls",
                timeout=_SEND_TIMEOUT_S,
            )
        except aiosmtplib.SMTPRecipientsRefused as exc:
            code, words = exc.recipients[0].code, exc.recipients[0].message
            if code < 500:
                raise
            log.warning("mail_refused", mail_id=mail.id, code=code)
            return f"{code} {words}"
        log.info("mail_sent", mail_id=mail.id)
        return None

"""The outbox against a real SMTP server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session
from sqlalchemy import select, update

from moorage.entrypoints.tables import metadata
from moorage.kit.clock import system_clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database, Listener, notify
from moorage.kit.settings import Settings
from moorage.notifications.channels import MAILS
from moorage.notifications.delivery import MailDelivery
from moorage.notifications.models import MailRow
from moorage.notifications.repository import (
    KEPT,
    TRIED_FOR,
    due_mails,
    find_mail,
    postpone_mail,
    purge_outbox,
    queue_mail,
)
from moorage.reconcile.driver import Driver
from tests.ports import free_port

KEYRING = Keyring(((b"\x01" * 4, b"\x02" * 32),))
DEADLINE_S = 20.0


@dataclass
class Mailbox:
    """What the server was given, and what it says to the next ones."""

    received: list[EmailMessage] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    recipient_answers: list[str] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802 - aiosmtpd calls it so
        self, server: SMTP, session: Session, envelope: Envelope, address: str, _: list[str]
    ) -> str:
        if self.recipient_answers:
            return self.recipient_answers.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if self.answers:
            return self.answers.pop(0)
        content = envelope.content
        assert isinstance(content, bytes)
        parsed = message_from_bytes(content, policy=policy.default)
        assert isinstance(parsed, EmailMessage)
        self.received.append(parsed)
        return "250 Taken"


@dataclass
class World:
    database: Database
    mailbox: Mailbox
    port: int

    async def queue(self, to: str, subject: str = "Hello") -> None:
        async with self.database.transaction() as session:
            await queue_mail(session, KEYRING, to=to, subject=subject, text="Some words.\n")

    async def row(self) -> MailRow:
        async with self.database.reading() as session:
            return (await session.execute(select(MailRow))).scalar_one()

    async def hurry(self) -> None:
        async with self.database.transaction() as session:
            await session.execute(update(MailRow).values(next_try_at=MailRow.created_at))
            await notify(session, MAILS)


@pytest.fixture
async def world(database: Database) -> World:
    async with database.transaction() as session:
        await (await session.connection()).run_sync(metadata.create_all)
    return World(database, Mailbox(), free_port())


def _server(world: World) -> Controller:
    return Controller(
        world.mailbox,
        hostname="127.0.0.1",
        port=world.port,
        authenticator=lambda *arguments: AuthResult(success=arguments[-1].password == b"right"),
        auth_required=True,
        auth_require_tls=False,
    )


@pytest.fixture
async def server(world: World) -> AsyncIterator[Controller]:
    controller = _server(world)
    await asyncio.to_thread(controller.start)
    yield controller
    await asyncio.to_thread(controller.stop)


@pytest.fixture
async def delivery(world: World) -> AsyncIterator[None]:
    settings = Settings(
        smtp_host="127.0.0.1",
        smtp_port=world.port,
        smtp_security="none",
        smtp_username="moorage",
        smtp_password="right",  # type: ignore[arg-type]
        mail_from="moorage@example.org",
    )
    listener = Listener(world.database.dsn)
    reconciler = MailDelivery(world.database, KEYRING, settings, system_clock)
    driver = Driver(reconciler, world.database, listener, "test", system_clock)
    tasks = [asyncio.create_task(listener.run()), asyncio.create_task(driver.run())]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    deadline = system_clock.monotonic() + DEADLINE_S
    while not condition():
        assert system_clock.monotonic() < deadline
        await asyncio.sleep(0.02)


async def until_row(world: World, condition: Callable[[MailRow], bool]) -> MailRow:
    deadline = system_clock.monotonic() + DEADLINE_S
    while not condition(row := await world.row()):
        assert system_clock.monotonic() < deadline, (row.tries, row.error)
        await asyncio.sleep(0.02)
    return row


async def test_sent_once(world: World, server: Controller, delivery: None) -> None:
    await world.queue("ann@example.com", "Your code")
    await until(lambda: len(world.mailbox.received) == 1)
    row = await until_row(world, lambda row: row.sent_at is not None)
    assert (row.next_try_at, row.tries, row.error) == (None, 1, None)
    (mail,) = world.mailbox.received
    assert (mail["To"], mail["From"], mail["Subject"]) == (
        "ann@example.com",
        "moorage@example.org",
        "Your code",
    )
    assert mail["Message-ID"] == f"<{row.id}@example.org>"
    assert [part.get_content_type() for part in mail.iter_parts()] == ["text/plain", "text/html"]


async def test_a_server_that_is_away_or_busy_is_tried_again(world: World, delivery: None) -> None:
    await world.queue("ann@example.com")
    row = await until_row(world, lambda row: row.tries >= 1)
    assert row.next_try_at is not None, "it is tried again"
    assert row.error
    world.mailbox.answers = ["451 Not now"]
    controller = _server(world)
    await asyncio.to_thread(controller.start)
    try:
        await world.hurry()
        await until_row(world, lambda row: "Not now" in (row.error or ""))
        await world.hurry()
        await until(lambda: len(world.mailbox.received) == 1)
        row = await until_row(world, lambda row: row.sent_at is not None)
        assert row.tries >= 3
    finally:
        await asyncio.to_thread(controller.stop)


async def test_an_address_refused_for_good_is_not_tried_again(
    world: World, server: Controller, delivery: None
) -> None:
    world.mailbox.recipient_answers = ["550 No such mailbox"]
    await world.queue("nobody@example.com")
    row = await until_row(world, lambda row: row.next_try_at is None)
    assert row.sent_at is None
    assert row.error is not None
    assert "550 No such mailbox" in row.error
    assert world.mailbox.received == []


@pytest.mark.parametrize(
    ("age", "next_try", "sends", "stays"),
    [
        (KEPT - timedelta(hours=1), None, True, True),
        (KEPT + timedelta(hours=1), None, True, False),
        (KEPT + timedelta(hours=1), "waits", True, True),
        (KEPT + timedelta(hours=1), "waits", False, False),
        (TRIED_FOR + timedelta(hours=1), "waits", True, False),
    ],
)
async def test_purge(world: World, age: timedelta, next_try: str | None, sends: bool, stays: bool) -> None:
    await world.queue("ann@example.com")
    async with world.database.transaction() as session:
        aged = {"created_at": MailRow.created_at - age}
        await session.execute(
            update(MailRow).values(aged if next_try else aged | {"next_try_at": None, "sent_at": None})
        )
        await purge_outbox(session, sends=sends)
        left = (await session.execute(select(MailRow.id))).scalars().all()
    assert bool(left) is stays


async def test_what_somebody_waits_for_goes_first(database: Database) -> None:
    """A thousand mails about one organization's machines keep nobody from signing in."""
    for number in range(40):
        async with database.transaction() as session:
            await queue_mail(session, KEYRING, to="a@example.com", subject=f"{number}", text="text")
    async with database.transaction() as session:
        await queue_mail(session, KEYRING, to="b@example.com", subject="code", text="text", is_awaited=True)
    async with database.transaction() as session:
        keys, _ = await due_mails(session, 32)
        first = await find_mail(session, KEYRING, keys[0])
        assert first is not None
        assert first.subject == "code"
        await postpone_mail(session, keys[0], "busy")
        keys_then, _ = await due_mails(session, 40)
    assert keys[0] not in keys_then, "one that cannot be sent is in nobody's way"
    assert len(keys_then) == 40

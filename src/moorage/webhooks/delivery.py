"""Sends what waits for webhooks.

Purpose: every event reaches every webhook that asked for it, at least once, in order while the receiver answers.
Invariants: one message at a time to each receiver, and few at a time to those of one organization or person; no
transaction is open while it is spoken to; only addresses that were judged are connected to, each time anew.
What an admin made who no longer is one goes to nobody: the webhook is switched off, until another admin wants it.
When it fails: the message waits, longer each time, for about three days; then, or when the receiver answers 410,
the webhook is switched off, with the reason in the organization's audit log.
"""

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.organizations.audit.repository import record_audit
from moorage.outbound.addresses import AddressRefusedError, Reach, origin_of, strict_url, system_lookup
from moorage.outbound.transport import Transport, TransportError
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease
from moorage.webhooks import repository
from moorage.webhooks.channels import WEBHOOKS
from moorage.webhooks.chat import chat_text
from moorage.webhooks.models import WebhookRow
from moorage.webhooks.repository import Waiting
from moorage.webhooks.schedule import pause_after
from moorage.webhooks.service import secret_context
from moorage.webhooks.signing import signed_headers

log = structlog.get_logger()

SHARE = 4
"""Of the messages that are sent at once (`reconcile.driver`), for one organization, and for one person in all theirs."""
MOST_WAITING = 5000
"""Messages for one webhook."""
_MAX_ANSWER_BYTES = 64 * 1024
_GONE = 410
_MAKER_GONE = "its creator is no longer an admin; any admin can switch it on again"


@dataclass(frozen=True)
class Outcome:
    status: int | None
    error: str | None = None
    """None when the receiver took it."""


@dataclass
class WebhookDelivery:
    database: Database
    keyring: Keyring
    settings: Settings
    clock: Clock
    tls: ssl.SSLContext | None = None
    name: str = "webhooks"
    channels: tuple[str, ...] = (WEBHOOKS,)
    _under_way: set[str] = field(init=False, default_factory=set)

    async def due(self, limit: int) -> Due:
        await asyncio.sleep(0)  # What the driver has just begun says so first, and counts.
        async with self.database.reading() as session:
            keys, next_in_s = await repository.due_webhooks(session, limit, SHARE, self._under_way)
        return Due(keys, next_in_s)

    async def reconcile(self, key: str, lease: Lease) -> None:
        self._under_way.add(key)
        try:
            await self._deliver(key, lease)
        finally:
            self._under_way.discard(key)

    async def _deliver(self, key: str, lease: Lease) -> None:
        async with self.database.reading() as session:
            waiting = await repository.next_delivery(session, key)
        if waiting is None:
            return
        lease.check()
        if waiting.maker_lost_the_right:
            async with self.database.transaction() as session:
                await lease.guard(session)
                webhook = await repository.lock_webhook(session, key)
                if webhook is not None and await repository.maker_lost_the_right(session, key):
                    await _switch_off(session, webhook, _MAKER_GONE)
            return
        outcome = await self._send(waiting)
        log.info(
            "webhook_sent",
            webhook_id=key,
            delivery_id=waiting.delivery.id,
            status=outcome.status,
            error=outcome.error,
        )
        async with self.database.transaction() as session:
            await lease.guard(session)
            await _record(session, waiting, outcome)

    def _page_of(self, data: Mapping[str, Any]) -> str | None:
        """Where the console shows it; without an address of its own, the installation has none to give to others."""
        project_id, container_id = data.get("project_id"), data.get("container_id")
        if self.settings.public_url is None or not project_id or not container_id:
            return None
        return f"{self.settings.api_base_url}/projects/{project_id}/containers/{container_id}"

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            await repository.postpone(session, key)

    async def lead(self, lease: Lease) -> None:
        return None

    async def _send(self, waiting: Waiting) -> Outcome:
        webhook, delivery = waiting.webhook, waiting.delivery
        secret = self.keyring.decrypt(webhook.sealed_secret, secret_context(webhook.id)).decode()
        message = {"timestamp": delivery.created_at.isoformat(), **delivery.payload}
        if webhook.format == "chat":
            link = self._page_of(delivery.payload["data"])
            message = {"text": chat_text(delivery.event, delivery.payload["data"], waiting.names, link)}
        body = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()
        headers = signed_headers(secret, delivery.id, waiting.now_epoch_s, body)
        try:
            url = strict_url(webhook.url)
            reach = Reach(origin_of(url), self.settings.allowed_webhook_hosts, system_lookup)
            async with Transport(reach, self.clock, self.tls) as transport:
                answer = await transport.post(
                    url, body, headers | {"Content-Type": "application/json"}, max_bytes=_MAX_ANSWER_BYTES
                )
        except (TransportError, AddressRefusedError) as exc:
            return Outcome(None, str(exc))
        if 200 <= answer.status < 300:
            return Outcome(answer.status)
        return Outcome(answer.status, f"{answer.origin} answered {answer.status}")


async def _record(session: AsyncSession, sent: Waiting, outcome: Outcome) -> None:
    """What came of it, for the webhook as it is by now."""
    webhook = await repository.lock_webhook(session, sent.webhook.id)
    if webhook is None:
        return  # Its messages went with it.
    if outcome.error is None and outcome.status is not None:
        await repository.record_delivered(session, sent.delivery.id, outcome.status)
        await _switch_off_if_hopeless(session, webhook)
        return
    pause = pause_after(sent.delivery.tries + 1) if outcome.status != _GONE else None
    if webhook.url != sent.webhook.url:
        pause = pause_after(1)  # What the old address says tells nothing about the new one.
    is_off = webhook.disabled_at is not None
    error = outcome.error or ""
    again_in = None if is_off else pause
    await repository.record_failed(session, sent.delivery.id, outcome.status, error, again_in)
    if pause is None and not is_off:
        await _switch_off(session, webhook, error)
    else:
        await _switch_off_if_hopeless(session, webhook)


async def _switch_off_if_hopeless(session: AsyncSession, webhook: WebhookRow) -> None:
    """More happens than its receiver takes: what waits for it must not grow without end."""
    if webhook.disabled_at is None and await repository.count_waiting(session, webhook.id) > MOST_WAITING:
        await _switch_off(session, webhook, f"more than {MOST_WAITING} messages wait for it")


async def _switch_off(session: AsyncSession, webhook: WebhookRow, why: str) -> None:
    await repository.disable(session, webhook.id, f"Switched off because {why}.")
    record_audit(
        session,
        webhook.organization_id,
        actor="system",
        action="webhook.disable",
        target=webhook.id,
        url=webhook.url,
        reason=why,
    )

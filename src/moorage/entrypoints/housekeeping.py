"""Purges what has run out: mails, sign-in codes, sessions, temporary keys, remembered answers, deliveries of webhooks.

Purpose: nothing that was promised to be short-lived stays. Idempotent; a missed round is caught up by the next.
"""

from dataclasses import dataclass, field

from moorage.identity.api_keys.repository import purge_temporary_keys
from moorage.identity.device.repository import purge_device_logins
from moorage.identity.providers.repository import purge_attempts
from moorage.identity.sessions.repository import purge_dead_sessions
from moorage.identity.sign_in.repository import purge_old_codes
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.idempotency import purge_old_requests
from moorage.kit.settings import Settings
from moorage.notifications.repository import purge_outbox
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease
from moorage.webhooks.repository import purge_deliveries

EVERY_S = 300.0


@dataclass
class Housekeeping:
    database: Database
    settings: Settings
    clock: Clock
    name: str = "housekeeping"
    channels: tuple[str, ...] = ()
    _next_s: float = field(init=False, default=float("-inf"))

    async def due(self, limit: int) -> Due:
        left_s = self._next_s - self.clock.monotonic()
        return Due(["all"], None) if left_s <= 0 else Due([], left_s)

    async def reconcile(self, key: str, lease: Lease) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            await purge_outbox(session, sends=self.settings.smtp_host is not None)
            await purge_old_codes(session)
            await purge_dead_sessions(session)
            await purge_temporary_keys(session)
            await purge_attempts(session)
            await purge_device_logins(session)
            await purge_old_requests(session)
            await purge_deliveries(session)
        self._next_s = self.clock.monotonic() + EVERY_S

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        self._next_s = self.clock.monotonic() + 10.0

    async def lead(self, lease: Lease) -> None:
        return None

"""Purges what has run out: mails, sign-in codes, sessions, temporary keys, remembered answers, deliveries of webhooks,
addresses of removed machines, replicas that are gone, what starts took, what gateways saw, history.

Purpose: nothing that was promised to be short-lived stays, and nothing grows without end. Idempotent; a missed round is
caught up by the next.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.autoscaling.repository import purge_decisions_of_deleted
from moorage.containers.retention_repository import (
    forget_caches_of_gone_machines,
    purge_activities,
    purge_containers,
    purge_replicas,
)
from moorage.containers.start_times.repository import purge_measured_steps
from moorage.gateway.served_repository import purge_spans
from moorage.identity.api_keys.repository import purge_ended_keys, purge_temporary_keys
from moorage.identity.device.repository import purge_device_logins
from moorage.identity.providers.repository import purge_attempts
from moorage.identity.sessions.repository import purge_dead_sessions
from moorage.identity.sign_in.limits_repository import purge_guesses_and_sources
from moorage.identity.sign_in.repository import purge_old_codes
from moorage.kit.clock import Clock
from moorage.kit.database import PORTION, Database
from moorage.kit.idempotency import purge_old_requests
from moorage.kit.settings import Settings
from moorage.ledger.retention_repository import purge_released_hours
from moorage.machines.repository import free_addresses, purge_state_changes
from moorage.notifications.repository import purge_outbox
from moorage.organizations.audit.repository import purge_audit
from moorage.organizations.invitations.repository import purge_invitations
from moorage.organizations.members.repository import purge_past_memberships
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease
from moorage.telemetry.requests.held_repository import purge_held
from moorage.webhooks.repository import purge_deliveries

EVERY_S = 300.0

Purge = Callable[[AsyncSession, timedelta], Awaitable[int]]
"""Removes a portion of what is older, and says how much that was."""

# Containers after their replicas and decisions, which refer to them.
_HISTORY: tuple[Purge, ...] = (
    purge_activities,
    purge_audit,
    purge_ended_keys,
    purge_invitations,
    purge_decisions_of_deleted,
    purge_containers,
)


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
            await purge_guesses_and_sources(session)
            await purge_dead_sessions(session)
            await purge_temporary_keys(session)
            await purge_attempts(session)
            await purge_device_logins(session)
            await purge_old_requests(session)
            await purge_deliveries(session)
            await purge_state_changes(session)
            await free_addresses(session)
            await forget_caches_of_gone_machines(session)
            await purge_spans(session)
            await purge_past_memberships(session)
            await purge_held(session, timedelta(days=self.settings.log_retention_days))
        replicas_kept = timedelta(days=self.settings.replica_retention_days)
        await self._purge(lease, (purge_replicas, purge_released_hours, purge_measured_steps), replicas_kept)
        await self._purge(lease, _HISTORY, timedelta(days=self.settings.history_retention_days))
        self._next_s = self.clock.monotonic() + EVERY_S

    async def _purge(self, lease: Lease, purges: Sequence[Purge], kept: timedelta) -> None:
        for purge in purges:
            gone = PORTION
            while gone == PORTION:
                async with self.database.transaction() as session:
                    await lease.guard(session)
                    gone = await purge(session, kept)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        self._next_s = self.clock.monotonic() + 10.0

    async def lead(self, lease: Lease) -> None:
        return None

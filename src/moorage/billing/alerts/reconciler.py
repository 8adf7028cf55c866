"""The alerts reconciler: whoever pays hears in time how much is spent and when the credit ends.

Purpose: at 50, 80 and 100 % of a monthly spending limit, and a day and an hour before the credit runs out.
Invariants: each is told once, in the transaction that notes it. It stops nothing: renewals do.
When it fails: the organization is looked at again with the next round.
"""

from dataclasses import dataclass, field

from moorage.billing.alerts import repository, service
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease

EVERY_S = 60.0


@dataclass
class AlertsReconciler:
    database: Database
    keyring: Keyring
    settings: Settings
    clock: Clock
    name: str = "alerts"
    channels: tuple[str, ...] = ()
    _waiting: dict[str, None] = field(init=False, default_factory=dict)
    """Organizations of this round that have not been looked at."""
    _next_round_s: float = field(init=False, default=float("-inf"))

    async def due(self, limit: int) -> Due:
        now_s = self.clock.monotonic()
        if not self._waiting and now_s >= self._next_round_s:
            async with self.database.reading() as session:
                self._waiting = dict.fromkeys(await repository.spending_organizations(session))
            # Hours that are short for a trial are over before a minute is.
            self._next_round_s = now_s + min(EVERY_S, self.settings.billing_hour_s / 4)
        next_in_s = None if self._waiting else self._next_round_s - now_s
        return Due(list(self._waiting)[:limit], next_in_s)

    async def reconcile(self, key: str, lease: Lease) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            # In this order, because renewals too lock the account before they note what was told of a limit.
            await service.tell_of_low_credit(session, self.keyring, self.settings, key)
            await service.tell_of_limits(session, self.keyring, self.settings, key)
        self._waiting.pop(key, None)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        self._waiting.pop(key, None)

    async def lead(self, lease: Lease) -> None:
        return None

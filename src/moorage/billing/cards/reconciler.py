"""The card payments reconciler: what became of a payment is asked for, until nothing more can become of it.

Purpose: a payment whose event was lost is credit all the same, and a refund or dispute whose event was lost is booked. So
is a payment that no row knows, because a backup was restored that is older: now and then, and whenever somebody begins to
lead, the provider's own list is compared with the rows.
Invariants: whatever is booked is booked once (`service.book`), so an event and a question may cross.
When it fails: a payment that cannot be asked about is tried again after a pause, and the others go on.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.cards import repository, service
from moorage.billing.cards.provider import CardProvider
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database, database_now
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease

REST_AFTER_FAILURE = timedelta(minutes=1)
EVERYTHING = "everything that was paid"
"""A key beside those of the payments."""
COMPARE_EVERY_S = 6 * 3600.0
OLDEST_BACKUP = timedelta(days=30)
"""What was paid longer ago is in every backup that somebody would restore."""


@dataclass
class CardPaymentsReconciler:
    database: Database
    keyring: Keyring
    provider: CardProvider | None
    """None: card payments are not set up, and nothing is ever due."""
    settings: Settings
    clock: Clock
    name: str = "card-payments"
    channels: tuple[str, ...] = ()
    _compare_at_s: float = field(init=False, default=float("-inf"))

    async def due(self, limit: int) -> Due:
        if self.provider is None:
            return Due([], None)
        async with self.database.reading() as session:
            keys, next_in_s = await repository.due_payments(session, limit)
        if self._compare_at_s <= self.clock.monotonic():
            keys = [EVERYTHING, *keys[: limit - 1]]
        return Due(keys, next_in_s)

    async def reconcile(self, key: str, lease: Lease) -> None:
        assert self.provider is not None, "nothing is due without one"
        lease.check()
        if key == EVERYTHING:
            await self._compare_everything(self.provider, lease)
            self._compare_at_s = self.clock.monotonic() + COMPARE_EVERY_S
            return
        guarded = partial(self._guarded, lease)
        await service.ask(guarded, self.provider, key, self.keyring, self.settings, rest=REST_AFTER_FAILURE)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        """Whoever asked about a payment has put it off already."""
        if key == EVERYTHING:
            self._compare_at_s = self.clock.monotonic() + REST_AFTER_FAILURE.total_seconds()

    async def lead(self, lease: Lease) -> None:
        # Whoever led before may have written to a database that is no more.
        self._compare_at_s = float("-inf")

    async def _compare_everything(self, provider: CardProvider, lease: Lease) -> None:
        async with self.database.reading() as session:
            since = await database_now(session) - OLDEST_BACKUP
        async for paid in provider.paid_orders(since):
            async with self.database.reading() as session:
                settled = await repository.settled_payments(session, [intent_id for intent_id, _ in paid])
            for intent_id, _ in paid:
                if intent_id not in settled:
                    facts = await provider.facts_of(intent_id)
                    async with self._guarded(lease) as session:
                        await service.book(session, facts, self.keyring, self.settings)

    @asynccontextmanager
    async def _guarded(self, lease: Lease) -> AsyncIterator[AsyncSession]:
        async with self.database.transaction() as session:
            await lease.guard(session)
            yield session

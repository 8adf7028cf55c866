"""The card payments reconciler: what became of a payment is asked for, until nothing more can become of it.

Purpose: a payment whose event was lost is credit all the same, and a refund or dispute whose event was lost is booked.
Invariants: whatever is booked is booked once (`service.book`), so an event and a question may cross.
When it fails: a payment that cannot be asked about is tried again after a pause, and the others go on.
"""

from dataclasses import dataclass, field
from datetime import timedelta

from moorage.billing.cards import repository, service
from moorage.billing.cards.provider import CardProvider, card_provider
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease

REST_AFTER_FAILURE = timedelta(minutes=1)


@dataclass
class CardPaymentsReconciler:
    database: Database
    keyring: Keyring
    settings: Settings
    name: str = "card-payments"
    channels: tuple[str, ...] = ()
    _provider: CardProvider | None = field(init=False)

    def __post_init__(self) -> None:
        self._provider = card_provider(self.settings)

    async def due(self, limit: int) -> Due:
        if self._provider is None:
            return Due([], None)
        async with self.database.reading() as session:
            return Due(*await repository.due_payments(session, limit))

    async def reconcile(self, key: str, lease: Lease) -> None:
        assert self._provider is not None, "nothing is due without one"
        lease.check()
        await service.ask(self.database, self._provider, key, self.keyring, rest=REST_AFTER_FAILURE)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        """Whoever asked has put it off already."""

    async def lead(self, lease: Lease) -> None:
        return None

    async def close(self) -> None:
        if self._provider is not None:
            await self._provider.close()

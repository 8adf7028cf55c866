"""The automatic top-ups reconciler: a saved card is charged when the credit falls below what its admins want to keep.

Purpose: what runs does not stop for want of a payment that somebody agreed to beforehand.
Invariants: a payment's row is committed before the provider hears of it and is its idempotency key there, and an
organization has one under way at a time: whatever dies, a card is charged once. `rules.py` bounds how often and how much.
When it fails: a payment whose end is not known stays under way and is asked for again with the same key. One that the provider
refused is noted, told to the admins, and followed by a pause.
"""

from dataclasses import dataclass, field

import structlog

from moorage.billing.auto_top_ups import repository, service
from moorage.billing.cards.models import CardPaymentRow
from moorage.billing.cards.order import Order
from moorage.billing.cards.provider import CardProvider, Charge, Declined
from moorage.billing.cards.repository import find_saved_card, record_checkout
from moorage.billing.cards.service import book, order_of
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.installation import ensure_installation_id
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

LOOK_AGAIN_S = 15.0


@dataclass
class AutoTopUpsReconciler:
    database: Database
    keyring: Keyring
    provider: CardProvider | None
    """None: card payments are not set up, and nothing is ever due."""
    settings: Settings
    clock: Clock
    name: str = "top-ups"
    channels: tuple[str, ...] = ()
    _looked_at_s: dict[str, float] = field(init=False, default_factory=dict)
    """Organization → when it may be looked at again."""

    async def due(self, limit: int) -> Due:
        if self.provider is None:
            return Due([], None)
        async with self.database.reading() as session:
            keys = await repository.due_organizations(session)
        now_s = self.clock.monotonic()
        self._looked_at_s = {key: at_s for key, at_s in self._looked_at_s.items() if at_s > now_s}
        return Due([key for key in keys if key not in self._looked_at_s][:limit], None)

    async def reconcile(self, key: str, lease: Lease) -> None:
        # Hours that are short for a trial leave less time.
        rest_s = min(LOOK_AGAIN_S, self.settings.billing_hour_s / 10)
        self._looked_at_s[key] = self.clock.monotonic() + rest_s
        async with self.database.transaction() as session:
            await lease.guard(session)
            payment = await service.payment_to_make(session, key, self.keyring, self.settings)
            card = await find_saved_card(session, key)
            installation_id = await ensure_installation_id(session)
        if payment is None or card is None:
            return
        order = order_of(payment, installation_id)
        provider = self.provider
        assert provider is not None, "nothing is due without one"
        lease.check()  # The provider knows no lease: whoever was overtaken charges nobody.
        outcome = await provider.charge(
            Charge(order, card.customer_id, payment.payment_method_id or "", payment.amount_microusd)
        )
        if isinstance(outcome, Declined):
            page_url = await self._page(provider, payment, order, lease) if outcome.needs_person else None
            await self._note_failure(payment, outcome, page_url, lease)
            return
        facts = await provider.facts_of(outcome)
        async with self.database.transaction() as session:
            await lease.guard(session)
            await book(session, facts, self.keyring, self.settings)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        self._looked_at_s[key] = self.clock.monotonic() + LOOK_AGAIN_S

    async def lead(self, lease: Lease) -> None:
        return None

    async def _page(self, provider: CardProvider, payment: CardPaymentRow, order: Order, lease: Lease) -> str:
        """Where a person can confirm the payment that their bank does not let us make alone."""
        page = await provider.begin(order, payment.amount_microusd, key=f"page:{payment.id}")
        async with self.database.transaction() as session:
            await lease.guard(session)
            await record_checkout(session, payment.id, page.session_id, page.url)
        return page.url

    async def _note_failure(
        self, payment: CardPaymentRow, declined: Declined, page_url: str | None, lease: Lease
    ) -> None:
        log.warning("auto_top_up_failed", organization_id=payment.organization_id, code=declined.code)
        async with self.database.transaction() as session:
            await lease.guard(session)
            await service.note_failure(
                session, payment, declined.code, declined.why, page_url, self.keyring, self.settings
            )

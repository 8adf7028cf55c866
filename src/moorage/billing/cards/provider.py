"""The card payments' provider, Stripe: what we ask it, and what it says became of a payment.

An event is only a hint that something changed. What did is asked for, so events may come late, twice or in any order.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import stripe
import structlog

from moorage.billing.cards.order import Order
from moorage.billing.top_ups.amounts import CENT_MICROUSD
from moorage.kit.errors import InvalidInputError, UnavailableError
from moorage.kit.settings import Settings

log = structlog.get_logger()

TIMEOUT_S = 20
MOST_AT_ONCE = 100
"""Refunds or disputes of one payment; the provider gives no more in one answer."""


@dataclass(frozen=True)
class Checkout:
    session_id: str
    url: str


@dataclass(frozen=True)
class Refund:
    id: str
    amount_microusd: int
    failed: bool
    """The bank did not take it, perhaps long after it seemed to be done."""


@dataclass(frozen=True)
class Dispute:
    id: str
    amount_microusd: int
    won: bool


@dataclass(frozen=True)
class Facts:
    """What the provider says about one payment now."""

    intent_id: str
    order: Order | None
    """What it is for; None when the payment is somebody else's."""
    created_at: datetime
    paid: bool
    currency: str
    amount_microusd: int
    refunds: tuple[Refund, ...]
    disputes: tuple[Dispute, ...]
    card_fingerprint: str | None
    """None where it was not paid by card."""


@dataclass(frozen=True)
class Page:
    """A page where a card is entered, as it is now."""

    facts: Facts | None
    """None while nobody has tried to pay."""
    open: bool
    """Somebody can pay on it now."""
    expired: bool
    """Nobody did, and nobody can any more."""


@dataclass(frozen=True)
class Card:
    """What is shown of one that the provider keeps. Its number never comes here."""

    payment_method_id: str
    brand: str
    last4: str
    expires_month: int
    expires_year: int
    fingerprint: str | None
    """The same for the same card, whoever enters it."""


@dataclass(frozen=True)
class Charge:
    """Of a saved card, with nobody present."""

    order: Order
    customer_id: str
    payment_method_id: str
    amount_microusd: int


@dataclass(frozen=True)
class Declined:
    code: str
    why: str
    """The provider's words."""

    @property
    def needs_person(self) -> bool:
        """Their bank wants to see them."""
        return self.code == "authentication_required"


class CardProvider:
    """One for each process: it keeps its connections."""

    def __init__(self, settings: Settings) -> None:
        assert settings.stripe_secret_key is not None, "whoever asks knows that cards are set up"
        assert settings.stripe_webhook_secret is not None, "both keys are"
        self._webhook_secret = settings.stripe_webhook_secret.get_secret_value()
        self._return_url = f"{settings.api_base_url}/billing"
        self._connections = stripe.HTTPXClient(timeout=TIMEOUT_S)
        self._client = stripe.StripeClient(
            settings.stripe_secret_key.get_secret_value(),
            base_addresses={"api": settings.stripe_api_base},
            http_client=self._connections,
            max_network_retries=2,
        )

    async def close(self) -> None:
        await self._connections.close_async()  # type: ignore[no-untyped-call]

    async def begin(self, order: Order, amount_microusd: int, *, key: str | None = None) -> Checkout:
        """A page where the card is entered. The same top-up always gives the same page."""
        top_up_id = order.top_up_id
        line = {
            "quantity": 1,
            "price_data": {
                "currency": "usd",
                "unit_amount": amount_microusd // CENT_MICROUSD,
                "product_data": {"name": "Moorage credit"},
            },
        }
        wanted = {
            "mode": "payment",
            "client_reference_id": top_up_id,
            "line_items": [line],
            "payment_intent_data": {"metadata": order.to_metadata()},
            "success_url": f"{self._return_url}?paid={top_up_id}",
            "cancel_url": f"{self._return_url}?cancelled={top_up_id}",
        }
        return await self._page(wanted, key or top_up_id)

    async def customer(self, organization_id: str) -> str:
        """The organization's id at the provider; the same one whenever it is asked for."""
        wanted: Any = {"metadata": {"organization_id": organization_id}}
        key: Any = {"idempotency_key": f"customer:{organization_id}"}
        with _reachable():
            return (await self._client.v1.customers.create_async(wanted, key)).id

    async def begin_saving(self, customer_id: str, key: str) -> Checkout:
        """A page where a card is entered that may be charged later."""
        wanted = {
            "mode": "setup",
            "currency": "usd",
            "customer": customer_id,
            "success_url": f"{self._return_url}?card=saved",
            "cancel_url": f"{self._return_url}?card=cancelled",
        }
        return await self._page(wanted, key)

    async def saved_card(self, customer_id: str) -> Card | None:
        """The one that was saved last."""
        newest = max(await self._cards(customer_id), key=lambda one: (one.created, one.id), default=None)
        if newest is None:
            return None
        card = newest.card
        return Card(newest.id, card.brand, card.last4, card.exp_month, card.exp_year, card.fingerprint)

    async def forget_cards(self, customer_id: str) -> None:
        with _reachable():
            for one in await self._cards(customer_id):
                await self._client.v1.payment_methods.detach_async(one.id)

    async def charge(self, charge: Charge) -> str | Declined:
        """The payment's id at the provider. The same top-up is charged once, however often this is asked for."""
        wanted: Any = {
            "amount": charge.amount_microusd // CENT_MICROUSD,
            "currency": "usd",
            "customer": charge.customer_id,
            "payment_method": charge.payment_method_id,
            "confirm": True,
            "off_session": True,
            "metadata": charge.order.to_metadata(),
        }
        try:
            with _reachable(stripe.CardError):
                made = await self._client.v1.payment_intents.create_async(
                    wanted, {"idempotency_key": charge.order.top_up_id}
                )
        except stripe.CardError as exc:
            return Declined(exc.code or "card_declined", exc.user_message or "The card was declined.")
        return made.id

    def verified(self, payload: bytes, signature: str) -> dict[str, Any]:
        """The event, if the provider signed it within the last five minutes."""
        try:
            event = stripe.Webhook.construct_event(payload, signature, self._webhook_secret)
        except (stripe.SignatureVerificationError, ValueError, UnicodeDecodeError) as exc:
            raise InvalidInputError(
                "The signature of the event is missing, wrong or too old.", code="invalid_signature"
            ) from exc
        found: dict[str, Any] = event.to_dict()
        return found

    async def facts(self, event: dict[str, Any]) -> Facts | None:
        """Of the payment that an event is about; None where there is nothing to know yet, or where it is about
        something that is not a payment to us: the account may sell other things too."""
        about = event["data"]["object"]
        try:
            with _reachable(stripe.InvalidRequestError):
                intent_id = about.get("payment_intent")
                if about.get("object") == "payment_intent" and "top_up_id" in (about.get("metadata") or {}):
                    intent_id = about["id"]
                if about.get("object") == "checkout.session":
                    intent_id = (
                        await self._client.v1.checkout.sessions.retrieve_async(about["id"])
                    ).payment_intent
                return await self._facts(intent_id) if isinstance(intent_id, str) else None
        except stripe.InvalidRequestError as exc:
            log.warning("card_event_about_nothing", event_id=event.get("id"), error=str(exc))
            return None

    async def page(self, session_id: str) -> Page:
        with _reachable():
            session = await self._client.v1.checkout.sessions.retrieve_async(session_id)
            intent_id = session.payment_intent
            facts = await self._facts(intent_id) if isinstance(intent_id, str) else None
        return Page(facts, open=session.status == "open", expired=session.status == "expired")

    async def find_charge(self, customer_id: str, top_up_id: str) -> Facts | None:
        """Of a card that was charged with nobody present, when the answer got lost."""
        wanted: Any = {"customer": customer_id, "limit": MOST_AT_ONCE}
        with _reachable():
            intents = (await self._client.v1.payment_intents.list_async(wanted)).data
            mine = [one for one in intents if (order := _order_of(one)) and order.top_up_id == top_up_id]
            # A person may have paid on a page after the bank had refused the first attempt.
            best = max(mine, key=lambda one: (one.status == "succeeded", one.created), default=None)
            return await self._facts(best.id) if best is not None else None

    async def paid_orders(self, since: datetime) -> AsyncIterator[list[tuple[str, Order]]]:
        """Everything that was paid for us since then: the payment's id and what it is for, some at a time."""
        wanted: Any = {"created": {"gte": int(since.timestamp())}, "limit": MOST_AT_ONCE}
        more = True
        while more:
            with _reachable():
                page = await self._client.v1.payment_intents.list_async(wanted)
            paid = [(one.id, _order_of(one)) for one in page.data if one.status == "succeeded"]
            yield [(intent_id, order) for intent_id, order in paid if order is not None]
            more = page.has_more and bool(page.data)
            wanted = {**wanted, "starting_after": page.data[-1].id} if more else wanted

    async def facts_of(self, intent_id: str) -> Facts:
        with _reachable():
            return await self._facts(intent_id)

    def customer_of(self, event: dict[str, Any]) -> str | None:
        """Whose saved cards an event may be about."""
        about, before = event["data"]["object"], event["data"].get("previous_attributes") or {}
        is_page = about.get("object") == "checkout.session"
        if (is_page and about.get("mode") != "setup") or not event["type"].startswith(_ABOUT_CARDS):
            return None
        found = about.get("customer") or before.get("customer")
        return found if isinstance(found, str) else None

    async def _page(self, wanted: Any, key: str) -> Checkout:
        with _reachable():
            session = await self._client.v1.checkout.sessions.create_async(wanted, {"idempotency_key": key})
        assert session.url is not None, "a page that was just made is open"
        return Checkout(session.id, session.url)

    async def _cards(self, customer_id: str) -> list[Any]:
        wanted: Any = {"customer": customer_id, "type": "card", "limit": MOST_AT_ONCE}
        with _reachable():
            return list((await self._client.v1.payment_methods.list_async(wanted)).data)

    async def _facts(self, intent_id: str) -> Facts:
        expanded: Any = {"expand": ["latest_charge"]}
        intent = await self._client.v1.payment_intents.retrieve_async(intent_id, expanded)
        of_intent: Any = {"payment_intent": intent_id, "limit": MOST_AT_ONCE}
        refunds = await self._client.v1.refunds.list_async(of_intent)
        disputes = await self._client.v1.disputes.list_async(of_intent)
        return Facts(
            intent_id=intent_id,
            order=_order_of(intent),
            created_at=datetime.fromtimestamp(intent.created, UTC),
            paid=intent.status == "succeeded",
            currency=intent.currency,
            amount_microusd=intent.amount_received * CENT_MICROUSD,
            refunds=tuple(
                Refund(one.id, one.amount * CENT_MICROUSD, failed=one.status != "succeeded")
                for one in refunds.data
                if one.status in ("succeeded", "failed", "canceled")
            ),
            disputes=tuple(
                Dispute(one.id, one.amount * CENT_MICROUSD, one.status == "won")
                for one in disputes.data
                # A bank that only asks has taken nothing back.
                if not one.status.startswith("warning_")
            ),
            card_fingerprint=_fingerprint_of(intent),
        )


def card_provider(settings: Settings) -> CardProvider | None:
    """None where card payments are not set up."""
    keys = (settings.stripe_secret_key, settings.stripe_webhook_secret)
    return None if None in keys else CardProvider(settings)


def _order_of(intent: Any) -> Order | None:
    return Order.from_metadata(intent.metadata.to_dict() if intent.metadata else {})


def _fingerprint_of(intent: Any) -> str | None:
    charge = intent.to_dict().get("latest_charge") or {}
    details = charge.get("payment_method_details") or {}
    found: str | None = (details.get("card") or {}).get("fingerprint")
    return found


@contextmanager
def _reachable(*expected: type[stripe.StripeError]) -> Iterator[None]:
    """Whatever the provider does that we did not expect is something to try again later."""
    try:
        yield
    except expected:
        raise
    except stripe.StripeError as exc:
        raise UnavailableError(
            "The payment provider does not answer as expected. Try again in a moment.",
            code="card_payments_unavailable",
        ) from exc


_ABOUT_CARDS = ("checkout.session.completed", "setup_intent.succeeded", "payment_method.")

"""The card payments' provider, Stripe: what we ask it, and what it says became of a payment.

An event is only a hint that something changed. What did is asked for, so events may come late, twice or in any order.
"""

from dataclasses import dataclass
from typing import Any

import stripe

from moorage.billing.top_ups.amounts import CENT_MICROUSD
from moorage.kit.errors import ConflictError, InvalidInputError, UnavailableError
from moorage.kit.settings import Settings

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


@dataclass(frozen=True)
class Dispute:
    id: str
    amount_microusd: int
    won: bool


@dataclass(frozen=True)
class Facts:
    """What the provider says about one payment now."""

    top_up_id: str | None
    """Ours; None when the payment is somebody else's."""
    paid: bool
    currency: str
    amount_microusd: int
    refunds: tuple[Refund, ...]
    disputes: tuple[Dispute, ...]


class CardProvider:
    def __init__(self, settings: Settings) -> None:
        if settings.stripe_secret_key is None or settings.stripe_webhook_secret is None:
            raise ConflictError(
                f"Card payments are not set up here. Ask {settings.support_contact}, or pay by bank transfer.",
                code="payment_method_not_set_up",
            )
        self._webhook_secret = settings.stripe_webhook_secret.get_secret_value()
        self._return_url = f"{settings.api_base_url}/billing"
        self._client = stripe.StripeClient(
            settings.stripe_secret_key.get_secret_value(),
            base_addresses={"api": settings.stripe_api_base},
            http_client=stripe.HTTPXClient(timeout=TIMEOUT_S),
            max_network_retries=2,
        )

    async def begin(self, top_up_id: str, amount_microusd: int) -> Checkout:
        """A page where the card is entered. The same top-up always gives the same page."""
        line = {
            "quantity": 1,
            "price_data": {
                "currency": "usd",
                "unit_amount": amount_microusd // CENT_MICROUSD,
                "product_data": {"name": "Moorage credit"},
            },
        }
        wanted: Any = {
            "mode": "payment",
            "client_reference_id": top_up_id,
            "line_items": [line],
            "payment_intent_data": {"metadata": {"top_up_id": top_up_id}},
            "success_url": f"{self._return_url}?paid={top_up_id}",
            "cancel_url": f"{self._return_url}?cancelled={top_up_id}",
        }
        try:
            session = await self._client.v1.checkout.sessions.create_async(
                wanted, {"idempotency_key": top_up_id}
            )
        except stripe.StripeError as exc:
            raise _unavailable() from exc
        assert session.url is not None, "a page that was just made is open"
        return Checkout(session.id, session.url)

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
        """Of the payment that an event is about; None where there is nothing to know yet."""
        about = event["data"]["object"]
        try:
            intent_id = about.get("payment_intent")
            if about.get("object") == "checkout.session":
                intent_id = (
                    await self._client.v1.checkout.sessions.retrieve_async(about["id"])
                ).payment_intent
            if not isinstance(intent_id, str):
                return None
            return await self._facts(intent_id)
        except stripe.InvalidRequestError as exc:
            raise InvalidInputError(
                "The event is about something that the provider does not know.", code="unknown_payment"
            ) from exc
        except stripe.StripeError as exc:
            raise _unavailable() from exc

    async def _facts(self, intent_id: str) -> Facts:
        intent = await self._client.v1.payment_intents.retrieve_async(intent_id)
        metadata = intent.metadata.to_dict() if intent.metadata else {}
        of_intent: Any = {"payment_intent": intent_id, "limit": MOST_AT_ONCE}
        refunds = await self._client.v1.refunds.list_async(of_intent)
        disputes = await self._client.v1.disputes.list_async(of_intent)
        return Facts(
            top_up_id=metadata.get("top_up_id"),
            paid=intent.status == "succeeded",
            currency=intent.currency,
            amount_microusd=intent.amount_received * CENT_MICROUSD,
            refunds=tuple(
                Refund(one.id, one.amount * CENT_MICROUSD)
                for one in refunds.data
                if one.status == "succeeded"
            ),
            disputes=tuple(
                Dispute(one.id, one.amount * CENT_MICROUSD, one.status == "won") for one in disputes.data
            ),
        )


def _unavailable() -> UnavailableError:
    return UnavailableError(
        "The card payments' provider does not answer as it should. Try again in a moment.",
        code="card_payments_unavailable",
    )

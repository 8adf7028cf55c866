from fastapi import APIRouter, Request

from moorage.billing.cards import saved_service, service
from moorage.billing.cards.access import TheCardProvider
from moorage.kit.web import TheDatabase, TheKeyring, TheSettings, takes_body

router = APIRouter(tags=["billing"])

MOST_EVENT_BYTES, MOST_EVENT_VALUES = 512 * 2**10, 20_000
"""Only what carries the provider's signature is parsed."""


@router.post("/webhooks/stripe", include_in_schema=False)
@takes_body(MOST_EVENT_BYTES, MOST_EVENT_VALUES, for_strangers=True)
async def stripe_event(
    request: Request,
    provider: TheCardProvider,
    database: TheDatabase,
    keyring: TheKeyring,
    settings: TheSettings,
) -> dict[str, bool]:
    """Receives events of the payment provider. The signature proves the sender; nobody signs in here."""
    event = provider.verified(await request.body(), request.headers.get("stripe-signature", ""))
    facts = await provider.facts(event) if event["type"].startswith(_ABOUT_PAYMENTS) else None
    if facts is not None:
        async with database.transaction() as session:
            await service.book(session, facts, keyring, settings)
    customer_id = provider.customer_of(event)
    if customer_id is not None:
        await saved_service.look_again(database, provider, customer_id)
    return {"received": True}


_ABOUT_PAYMENTS = ("checkout.session.", "charge.", "refund.", "payment_intent.")

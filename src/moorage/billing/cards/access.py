"""The card payments' provider, for endpoints."""

from typing import Annotated

from fastapi import Depends, Request

from moorage.billing.cards.provider import CardProvider
from moorage.kit.errors import ConflictError
from moorage.kit.settings import Settings
from moorage.kit.web import TheSettings


async def _optional_provider(request: Request) -> CardProvider | None:
    provider: CardProvider | None = request.app.state.card_provider
    return provider


OptionalCardProvider = Annotated[CardProvider | None, Depends(_optional_provider)]


async def _provider(provider: OptionalCardProvider, settings: TheSettings) -> CardProvider:
    return set_up(provider, settings)


TheCardProvider = Annotated[CardProvider, Depends(_provider)]


def set_up(provider: CardProvider | None, settings: Settings) -> CardProvider:
    if provider is None:
        raise ConflictError(
            f"Card payments are not set up here. Ask {settings.support_contact}, or pay by bank transfer.",
            code="payment_method_not_set_up",
        )
    return provider

from datetime import datetime
from html import escape
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel

from moorage.identity.authentication import TheUser
from moorage.identity.cookies import (
    attempt_cookie,
    clear_attempt_cookie,
    set_attempt_cookie,
)
from moorage.identity.providers import repository, service
from moorage.identity.providers.base import Provider
from moorage.identity.providers.configured import configured_providers
from moorage.identity.sign_in.endpoints import TheCaller, client_of, keep_signed_in
from moorage.kit.errors import MoorageError, NotFoundError, UnavailableError
from moorage.kit.pages import page
from moorage.kit.web import TheClock, TheDatabase, TheKeyring, TheSession, TheSettings, TheSource

router = APIRouter(tags=["sign-in"])


class ProviderRead(BaseModel):
    name: str
    title: str
    login_url: str


class Providers(BaseModel):
    items: list[ProviderRead]
    mails_codes: bool
    """Without a mail server, codes are in the operator's outbox, and whoever signs in has to ask for theirs."""


class Identity(BaseModel):
    title: str
    """Of the provider; its address where it is no longer set up here."""
    email: str
    """As the provider gave it when the account was linked."""
    linked_at: datetime


class Identities(BaseModel):
    items: list[Identity]


async def _provider(provider: str, settings: TheSettings, clock: TheClock) -> Provider:
    found = configured_providers(settings, clock).get(provider)
    if found is None:
        raise NotFoundError("This sign-in provider is not set up here.")
    return found


TheProvider = Annotated[Provider, Depends(_provider)]


@router.get("/auth/providers", summary="List ways to sign in")
async def list_providers(settings: TheSettings, clock: TheClock) -> Providers:
    """Lists the sign-in providers that the operator has set up in addition to mailed codes."""
    found = configured_providers(settings, clock).values()
    return Providers(
        items=[
            ProviderRead(name=one.name, title=one.title, login_url=f"/api/v1/auth/{one.name}/login")
            for one in found
        ],
        mails_codes=settings.smtp_host is not None,
    )


@router.get("/me/identities", summary="List your linked accounts")
async def list_identities(
    user: TheUser, session: TheSession, settings: TheSettings, clock: TheClock
) -> Identities:
    """Lists your accounts at providers that sign you in here."""
    titles = {one.issuer: one.title for one in configured_providers(settings, clock).values()}
    return Identities(
        items=[
            Identity(title=titles.get(row.issuer, row.issuer), email=row.email, linked_at=row.created_at)
            for row in await repository.list_identities(session, user.user_id)
        ]
    )


@router.get(
    "/auth/{provider}/login",
    summary="Begin sign-in with a provider",
    response_class=RedirectResponse,
    status_code=303,
)
async def login(
    provider: TheProvider,
    database: TheDatabase,
    settings: TheSettings,
    source: TheSource,
    return_to: Annotated[str, Query(max_length=500)] = "/",
) -> Response:
    """Redirects the browser to the provider, which sends it back to `/auth/{provider}/callback`."""
    url, token = await service.begin(database, settings, provider, return_to, source)
    answer = RedirectResponse(url, status_code=303)
    set_attempt_cookie(answer, settings, token)
    return answer


@router.get(
    "/auth/{provider}/callback",
    summary="Finish sign-in with a provider",
    response_class=RedirectResponse,
    status_code=303,
)
async def callback(
    provider: TheProvider,
    request: Request,
    database: TheDatabase,
    keyring: TheKeyring,
    settings: TheSettings,
    caller: TheCaller,
) -> Response:
    """The provider sends the browser here. Moorage checks the provider's answer, sets the session cookie and
    redirects to the console."""
    token = attempt_cookie(request, settings)
    newcomers = request.app.state.newcomers
    try:
        user, session_token, return_to = await service.finish(
            database,
            settings,
            newcomers,
            provider,
            token,
            request.query_params,
            client_of(request),
            caller.source,
        )
    except MoorageError as error:
        if "text/html" not in request.headers.get("accept", ""):
            raise
        status = 503 if isinstance(error, UnavailableError) else 403
        text = f'<p>{escape(error.message)}</p><p><a href="/">Back to the sign-in</a></p>'
        answer: Response = page("You are not signed in", text, status)
    else:
        answer = RedirectResponse(return_to, status_code=303)
        keep_signed_in(answer, settings, keyring, caller, user, session_token)
    clear_attempt_cookie(answer, settings)
    return answer

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from moorage.identity.actor import KeyActor
from moorage.identity.authentication import TheActor, TheUser
from moorage.identity.cookies import (
    clear_session_cookie,
    device_cookie,
    session_cookie,
    set_device_cookie,
    set_session_cookie,
)
from moorage.identity.sessions.repository import end_session
from moorage.identity.sign_in import service
from moorage.identity.sign_in.origins import Caller, device_token
from moorage.identity.sign_in.schemas import CodeSent, EmailStart, EmailVerify, LinkVerify, Me, SignedIn, User
from moorage.identity.tokens import csrf_token
from moorage.identity.users.models import UserRow
from moorage.kit.crypto import Keyring
from moorage.kit.settings import Settings
from moorage.kit.web import (
    STRANGERS_BODY_BYTES,
    TheDatabase,
    TheKeyring,
    TheSession,
    TheSettings,
    TheSource,
    takes_body,
)

router = APIRouter(tags=["sign-in"])


async def _caller(request: Request, source: TheSource, settings: TheSettings) -> Caller:
    return Caller(source, device_cookie(request, settings))


TheCaller = Annotated[Caller, Depends(_caller)]


@router.post("/auth/email/start", summary="Mail a sign-in code", status_code=202)
@takes_body(STRANGERS_BODY_BYTES)
async def start_email(
    body: EmailStart, session: TheSession, keyring: TheKeyring, settings: TheSettings, caller: TheCaller
) -> CodeSent:
    """Moorage mails a six-digit code to the address. The answer is the same whether or not the address has an
    account. Send the code to `/auth/email/verify` next."""
    await service.start_email(session, keyring, settings, body.email, caller)
    return CodeSent(message="If the address is right, a code is on its way. It works for 10 minutes.")


@router.post("/auth/email/verify", summary="Sign in with a mailed code")
@takes_body(STRANGERS_BODY_BYTES)
async def verify_email(
    body: EmailVerify,
    request: Request,
    response: Response,
    database: TheDatabase,
    keyring: TheKeyring,
    settings: TheSettings,
    caller: TheCaller,
) -> SignedIn:
    """Exchanges the code for a session. A new address gets an account with its own organization. The answer sets the
    session cookie and carries the session token and the CSRF token."""
    newcomers = request.app.state.newcomers
    user, token = await service.verify_email(
        database, keyring, settings, body.email, body.code, newcomers, caller, client_of(request)
    )
    keep_signed_in(response, settings, keyring, caller, user, token)
    return signed_in(user, token)


@router.post("/auth/link/verify", summary="Sign in with a one-time link")
@takes_body(STRANGERS_BODY_BYTES)
async def verify_link(
    body: LinkVerify,
    request: Request,
    response: Response,
    session: TheSession,
    keyring: TheKeyring,
    settings: TheSettings,
    caller: TheCaller,
) -> SignedIn:
    """Exchanges the token of a one-time link for a session. The link works once."""
    user, token = await service.verify_link(session, body.token, client_of(request), caller.source)
    keep_signed_in(response, settings, keyring, caller, user, token)
    return signed_in(user, token)


@router.post("/auth/logout", summary="Sign out", status_code=204)
@takes_body(STRANGERS_BODY_BYTES)
async def logout(actor: TheUser, response: Response, session: TheSession, settings: TheSettings) -> None:
    """Ends the session that sent the request and clears its cookie. Other sessions stay."""
    if actor.session_id is not None:
        await end_session(session, actor.session_id)
    clear_session_cookie(response, settings)


@router.get("/me", summary="Show who you are")
async def me(actor: TheActor, request: Request, settings: TheSettings) -> Me:
    """Returns the person or the key behind the request. A browser session also gets the `csrf_token` that it must
    send with every change."""
    if isinstance(actor, KeyActor):
        return Me(project_id=actor.project_id)
    user = User(id=actor.user_id, email=actor.email, is_operator=actor.is_operator)
    token = session_cookie(request, settings)
    return Me(
        user=user,
        csrf_token=csrf_token(token) if token else None,
        community_machines=settings.community_machines,
    )


def signed_in(user: UserRow, token: str) -> SignedIn:
    shown = User(id=user.id, email=user.email, is_operator=user.is_operator)
    return SignedIn(user=shown, session_token=token, csrf_token=csrf_token(token))


def keep_signed_in(
    response: Response, settings: Settings, keyring: Keyring, caller: Caller, user: UserRow, token: str
) -> None:
    """In a browser, with what tells it from strangers when it comes back another day."""
    set_session_cookie(response, settings, token)
    set_device_cookie(response, settings, device_token(keyring, user.email, caller))


def client_of(request: Request) -> str:
    """What signs in, as it names itself."""
    return request.headers.get("user-agent", "")

"""From a request to an `Actor`, or 401.

A Bearer token is a session's, the operator's or a `manage` key. A cookie is a session's, and then every request
that changes something must also carry the `X-CSRF-Token` that goes with it.
"""

from functools import partial
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.actor import Actor, KeyActor, UserActor
from moorage.identity.api_keys.repository import find_live_key
from moorage.identity.api_keys.repository import note_use as note_key_use
from moorage.identity.cookies import session_cookie
from moorage.identity.sessions.repository import find_live_session, note_use
from moorage.identity.tokens import (
    API_KEY_PREFIX,
    OPERATOR_KEY_PREFIX,
    SESSION_PREFIX,
    csrf_token,
    is_well_formed,
)
from moorage.identity.users.repository import find_operator_by_key
from moorage.kit.allowance import Allowance
from moorage.kit.clients import note_client
from moorage.kit.crypto import equal, sha256
from moorage.kit.errors import ForbiddenError, NotAuthenticatedError
from moorage.kit.ids import ApiKeyId, ProjectId, SessionId, UserId
from moorage.kit.settings import Settings
from moorage.kit.web import SAFE_METHODS, TheSession, TheSettings, at_the_end


async def current_actor(request: Request, session: TheSession, settings: TheSettings) -> Actor:
    actor = await _actor(request, session, settings)
    note_client(actor.shares_as)
    _count_change(request, actor)
    return actor


def _count_change(request: Request, actor: Actor) -> None:
    """Once for a request, however often it is asked who sent it. To remove what was made is always possible: whoever
    has somebody's key must not be able to keep them from revoking it. The operator is no tenant."""
    is_operator = isinstance(actor, UserActor) and actor.is_operator
    adds_nothing = request.method in SAFE_METHODS or request.method == "DELETE"
    if adds_nothing or is_operator or getattr(request.state, "is_counted", False):
        return
    allowance: Allowance = request.app.state.allowance
    allowance.take(actor.shares_as)
    request.state.is_counted = True


async def _actor(request: Request, session: AsyncSession, settings: Settings) -> Actor:
    header = request.headers.get("authorization")
    if header is not None:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            raise _refused()
        return await _bearer(request, session, token.strip())
    token = session_cookie(request, settings)
    actor = await _person(request, session, token)
    if request.method not in SAFE_METHODS:
        sent = request.headers.get("x-csrf-token", "")
        if not equal(sent.encode(), csrf_token(token).encode()):
            raise ForbiddenError(
                "The X-CSRF-Token header is missing or wrong. Reload the page.", code="csrf_failed"
            )
    return actor


async def person_of_cookie(request: Request, session: AsyncSession, settings: Settings) -> UserActor | None:
    """For a page of ours with a form, which checks its own token."""
    try:
        return await _person(request, session, session_cookie(request, settings))
    except NotAuthenticatedError:
        return None


TheActor = Annotated[Actor, Depends(current_actor)]


async def _current_user(actor: TheActor) -> UserActor:
    if isinstance(actor, KeyActor):
        raise ForbiddenError("API keys cannot do this. Sign in as a person.")
    return actor


TheUser = Annotated[UserActor, Depends(_current_user)]


async def _current_operator(actor: TheActor) -> UserActor:
    """The operator's routes do not exist for anybody else: 403 says only that this is the wrong account."""
    if isinstance(actor, KeyActor) or not actor.is_operator:
        raise ForbiddenError("Only the operator of this installation can do this.")
    return actor


TheOperator = Annotated[UserActor, Depends(_current_operator)]


async def _bearer(request: Request, session: AsyncSession, token: str) -> Actor:
    if is_well_formed(token, SESSION_PREFIX):
        return await _person(request, session, token)
    if is_well_formed(token, OPERATOR_KEY_PREFIX):
        return await _operator(session, token)
    if is_well_formed(token, API_KEY_PREFIX):
        found = await find_live_key(session, sha256(token))
        if found is not None and found[0].scope == "manage":
            key, use_is_worth_noting = found
            if use_is_worth_noting and request.client is not None:
                note = partial(note_key_use, session, key.id, request.client.host)
                await at_the_end(request, session, note)
            return KeyActor(ApiKeyId(key.id), ProjectId(key.project_id), key.created_by)
    raise _refused()


async def _person(request: Request, session: AsyncSession, token: str) -> UserActor:
    found = await find_live_session(session, sha256(token)) if is_well_formed(token, SESSION_PREFIX) else None
    if found is None:
        raise _refused()
    row, user, use_is_worth_noting = found
    if use_is_worth_noting:
        await at_the_end(request, session, partial(note_use, session, SessionId(row.id)))
    return UserActor(UserId(user.id), user.email, user.is_operator, SessionId(row.id))


async def _operator(session: AsyncSession, token: str) -> UserActor:
    operator = await find_operator_by_key(session, sha256(token))
    if operator is None:
        raise _refused()
    return UserActor(UserId(operator.id), operator.email, True, None)


def _refused() -> NotAuthenticatedError:
    return NotAuthenticatedError("Sign in, or send a valid key as 'Authorization: Bearer …'.")

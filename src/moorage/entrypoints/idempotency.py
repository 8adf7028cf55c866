"""`Idempotency-Key` on every POST of somebody who is signed in: a repeated one gets the answer of the first.

A success is remembered for a day, per actor. A refusal made nothing, so it is not: the same key may try again. The same
key with another request is 422; one that comes while the first is still at work waits for it, or gets 409.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import cast

from fastapi import Request
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moorage.identity.actor import Actor
from moorage.identity.authentication import current_actor
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database, DatabaseAwayError
from moorage.kit.errors import (
    ConflictError,
    FieldError,
    ForbiddenError,
    InvalidInputError,
    MoorageError,
    NotAuthenticatedError,
)
from moorage.kit.idempotency import Attempt, Earlier, claim, give_back, keep_answer
from moorage.kit.ids import new_attempt_id

WAIT_S = 10.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 0.5
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_ANSWERED = (MoorageError, HTTPException, ClientDisconnect, DatabaseAwayError, DBAPIError, PoolTimeoutError)
_KEPT_HEADERS = ("content-type", "location")


class IdempotencyMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        key = Headers(scope=scope).get("idempotency-key") if is_post else None
        if key is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            actor = await _actor(request)
            if actor is None:
                await self._app(scope, receive, send)
                return
            answer = await self._once(request, Attempt(new_attempt_id(), actor.id, key, actor.shares_as))
        except _ANSWERED as error:
            kind = next(kind for kind in _ANSWERED if isinstance(error, kind))
            # The application's own: this stands outside of where it would be called.
            answer = await request.app.exception_handlers[kind](request, error)
        await answer(scope, receive, send)

    async def _once(self, request: Request, attempt: Attempt) -> Response:
        if not _KEY.fullmatch(attempt.key):
            fields = (FieldError("Idempotency-Key", "must be 1 to 255 visible ASCII characters"),)
            raise InvalidInputError("The Idempotency-Key cannot be used.", fields=fields)
        body = await request.body()
        database: Database = request.app.state.database
        keyring: Keyring = request.app.state.keyring
        fingerprint = _fingerprint(request, body)
        earlier = await _claimed(database, request.app.state.clock, attempt, fingerprint)
        if earlier is not None:
            answer = _unsealed(keyring, attempt, earlier)
            answer.headers["Idempotency-Replayed"] = "true"
            return answer
        request.state.idempotency_attempt = attempt
        try:
            answer = await _answer_of(self._app, request, body)
            if answer.status_code < 300:
                async with database.transaction() as session:
                    await keep_answer(session, attempt, _sealed(keyring, attempt, answer))
        finally:
            async with database.transaction() as session:
                await give_back(session, attempt)
        return answer


async def _actor(request: Request) -> Actor | None:
    """None for strangers and for those who will be refused: the application tells them so itself."""
    database: Database = request.app.state.database
    try:
        async with database.reading() as session:
            return await current_actor(request, session, request.app.state.settings)
    except (NotAuthenticatedError, ForbiddenError):
        return None


async def _claimed(database: Database, clock: Clock, attempt: Attempt, fingerprint: bytes) -> Earlier | None:
    """None where this attempt goes ahead; else the earlier one, which has an answer."""
    deadline_s = clock.monotonic() + WAIT_S
    pause_s = _FIRST_PAUSE_S
    while True:
        async with database.transaction() as session:
            earlier = await claim(session, attempt, fingerprint)
        if earlier is None or earlier.answer is not None or earlier.forgotten:
            break
        if earlier.fingerprint != fingerprint:
            break
        if clock.monotonic() > deadline_s:
            raise _in_use(earlier)
        await clock.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
    if earlier is not None and earlier.fingerprint != fingerprint:
        raise InvalidInputError(
            "This Idempotency-Key was used for another request. Use a new key for each request.",
            code="idempotency_key_reused",
        )
    if earlier is not None and earlier.forgotten:
        raise _in_use(earlier)
    return earlier


async def _answer_of(app: ASGIApp, request: Request, body: bytes) -> Response:
    status, raw_headers, parts = 500, cast(Sequence[tuple[bytes, bytes]], ()), list[bytes]()
    unread = True

    async def receive() -> Message:
        nonlocal unread
        if unread:
            unread = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await request.receive()

    async def send(message: Message) -> None:
        nonlocal status, raw_headers
        if message["type"] == "http.response.start":
            status, raw_headers = message["status"], message["headers"]
        else:
            parts.append(message.get("body", b""))

    await app(request.scope, receive, send)
    answer = Response(b"".join(parts), status)
    answer.raw_headers = list(raw_headers)
    return answer


def _fingerprint(request: Request, body: bytes) -> bytes:
    asked = f"{request.method} {request.url.path}?{request.url.query}\n".encode("utf-8", "surrogatepass")
    return hashlib.sha256(asked + body).digest()


def _sealed(keyring: Keyring, attempt: Attempt, answer: Response) -> bytes:
    kept = {
        "status": answer.status_code,
        "headers": {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers},
        "body": bytes(answer.body).decode("latin-1"),
    }
    return keyring.encrypt(json.dumps(kept).encode(), _context(attempt))


def _unsealed(keyring: Keyring, attempt: Attempt, earlier: Earlier) -> Response:
    assert earlier.answer is not None, "waited for"
    kept = json.loads(keyring.decrypt(earlier.answer, _context(attempt)))
    return Response(kept["body"].encode("latin-1"), kept["status"], kept["headers"])


def _context(attempt: Attempt) -> str:
    return f"idempotent_requests.answer:{attempt.actor}:{attempt.key}"


def _in_use(earlier: Earlier) -> ConflictError:
    if earlier.committed:
        return ConflictError(
            "The request with this Idempotency-Key was carried out, but its answer is lost. Check what it made.",
            code="idempotency_answer_lost",
        )
    return ConflictError(
        "The request with this Idempotency-Key is still under way. Ask again in a moment.",
        code="idempotency_key_in_use",
    )

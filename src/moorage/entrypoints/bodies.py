"""A request's body is here before anything else happens for it, or it is refused.

Whoever sends a byte a second costs a socket and those bytes: no route has begun, so no connection to the database and
no place among the others is held for it. A route takes 64 KiB unless it declares more (`kit.web.takes_body`), and 4 KiB
of somebody who names nobody that they could be.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus

from fastapi import Request
from fastapi.routing import iter_route_contexts
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import BaseRoute, compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moorage.entrypoints.errors import problem
from moorage.kit.errors import FieldError
from moorage.kit.json_bounds import excess_of
from moorage.kit.web import SAFE_METHODS, STRANGERS_BODY_BYTES, BodyBounds, body_bounds_of

MOST_WAITING_BYTES_PER_ADDRESS = 16 * 2**20
"""Of bodies that are not complete; one address takes no more memory than this."""


@dataclass(frozen=True)
class _Declared:
    method: str
    path: re.Pattern[str]
    bounds: BodyBounds


@dataclass(frozen=True)
class _Refusal(Exception):  # noqa: N818 - it is what the client is told
    status: HTTPStatus
    code: str
    detail: str


class BodyMiddleware:
    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute], send_within_s: float) -> None:
        self._app = app
        self._declared = tuple(_declarations(routes))
        self._send_within_s = send_within_s
        self._waiting_bytes: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # What comes with a request that only reads is never looked at.
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return
        bounds = self._bounds_of(scope["method"], scope["path"])
        most_bytes, too_much = bounds.most_bytes, _too_large(bounds.most_bytes)
        if not (bounds.for_strangers or _has_credentials(scope)):
            # They will be refused: not for the price of a body.
            most_bytes, too_much = min(most_bytes, STRANGERS_BODY_BYTES), _not_signed_in()
        try:
            body = await self._received(scope, receive, most_bytes, too_much)
        except _Refusal as refusal:
            answer: Response = problem(Request(scope), refusal.status, refusal.code, refusal.detail)
            # Or the rest of it would be read as long as the client cares to send.
            answer.headers["Connection"] = "close"
            await answer(scope, receive, send)
            return
        if body is None:
            return  # nobody is there to be answered
        excess = excess_of(body, bounds.most_values) if _is_json(scope) else None
        if excess is not None:
            fields, detail = (FieldError("body", excess),), f"The body {excess}."
            answer = problem(Request(scope), HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_input", detail, fields)
            await answer(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)

    def _bounds_of(self, method: str, path: str) -> BodyBounds:
        for declared in self._declared:
            if declared.method == method and declared.path.match(path):
                return declared.bounds
        return BodyBounds()

    async def _received(
        self, scope: Scope, receive: Receive, most_bytes: int, too_much: _Refusal
    ) -> bytes | None:
        """None where the client hung up."""
        if _announced_bytes(scope) > most_bytes:
            raise too_much
        address = scope["client"][0] if scope.get("client") else ""
        parts, size_bytes = list[bytes](), 0
        try:
            async with asyncio.timeout(self._send_within_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part = message.get("body", b"")
                    size_bytes += len(part)
                    self._waiting_bytes[address] += len(part)
                    parts.append(part)
                    if size_bytes > most_bytes:
                        raise too_much
                    if not message.get("more_body", False):
                        return b"".join(parts)
                    if self._waiting_bytes[address] > MOST_WAITING_BYTES_PER_ADDRESS:
                        detail = "Your address sends too much at once. Send the request again in a moment."
                        raise _Refusal(HTTPStatus.TOO_MANY_REQUESTS, "too_many_bodies", detail)
        except TimeoutError as exc:
            detail = (
                f"The body did not arrive within {self._send_within_s:g} seconds. Send the request again."
            )
            raise _Refusal(HTTPStatus.REQUEST_TIMEOUT, "body_too_slow", detail) from exc
        finally:
            self._waiting_bytes[address] -= size_bytes
            if not self._waiting_bytes[address]:
                del self._waiting_bytes[address]


def _declarations(routes: Sequence[BaseRoute]) -> Iterator[_Declared]:
    for route in iter_route_contexts(routes):
        bounds = body_bounds_of(getattr(route.original_route, "endpoint", None))
        if bounds is not None and route.path is not None:
            for method in getattr(route.original_route, "methods", None) or ():
                yield _Declared(method, compile_path(route.path)[0], bounds)


def _announced_bytes(scope: Scope) -> int:
    announced = Headers(scope=scope).get("content-length", "")
    return int(announced) if announced.isdigit() and len(announced) < 20 else 0


def _has_credentials(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return "authorization" in headers or "cookie" in headers


def _is_json(scope: Scope) -> bool:
    return "json" in Headers(scope=scope).get("content-type", "").lower()


def _replayed(body: bytes, receive: Receive) -> Receive:
    unread = True

    async def again() -> Message:
        nonlocal unread
        if unread:
            unread = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


def _too_large(most_bytes: int) -> _Refusal:
    detail = f"The body is larger than this path's limit of {most_bytes} bytes."
    return _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large", detail)


def _not_signed_in() -> _Refusal:
    detail = "Sign in, or send a valid key as 'Authorization: Bearer …'."
    return _Refusal(HTTPStatus.UNAUTHORIZED, "authentication_failed", detail)

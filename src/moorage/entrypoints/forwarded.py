"""Whom the API believes where a request came from: HAProxy on its socket, which nobody else can use, and gateways that are named.

Strangers are limited by their address. Whoever could send a request to the API's own port with an `X-Forwarded-For` of its choice
would have as many as it likes, so there only named addresses are believed.
"""

from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware


class Forwarded:
    def __init__(self, app: ASGIApp, gateways: Sequence[str]) -> None:
        self._at_socket = ProxyHeadersMiddleware(app, "*")  # type: ignore[arg-type]
        self._at_port = ProxyHeadersMiddleware(app, list(gateways))  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A peer at a Unix socket has no address.
        way = self._at_socket if scope.get("client") is None else self._at_port
        await way(scope, receive, send)  # type: ignore[arg-type]

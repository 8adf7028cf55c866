"""A browser says where a request comes from; what another site sends changes nothing here.

The session's cookie is Lax and every change needs a token that other sites cannot read. This is the third bar, and the only
one that also covers the routes that strangers may call, such as signing in.
"""

from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.entrypoints.errors import problem
from moorage.kit.settings import Settings
from moorage.kit.web import SAFE_METHODS


class OriginMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in SAFE_METHODS:
            request = Request(scope)
            if _is_foreign(request):
                detail = "This request was sent by another site. Use the console of this installation."
                answer = problem(request, HTTPStatus.FORBIDDEN, "foreign_origin", detail)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _is_foreign(request: Request) -> bool:
    origin = request.headers.get("origin")
    # Whoever sends a key or a token of its own accord is no browser that was lured.
    if origin is None or "authorization" in request.headers:
        return False
    settings: Settings = request.app.state.settings
    # By the name that the browser itself used, or the one that the operator gave.
    own = {request.headers.get("host", ""), urlsplit(settings.api_base_url).netloc}
    return origin.partition("://")[2] not in own - {""}

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
                detail = "Another site sent this request. Open the page at this installation's own address."
                answer = problem(request, HTTPStatus.FORBIDDEN, "foreign_origin", detail)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _is_foreign(request: Request) -> bool:
    # Whoever sends a key or a token of its own accord is no browser that was lured.
    if "authorization" in request.headers:
        return False
    # What the browser itself thinks, which no page can make it say. It knows the address that the person sees, whatever a
    # proxy in front of us made of it, and a page of a container beside us is another to it. `none`: the person's own doing.
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    # An older browser, or one that reached us without TLS at a name that is not its own machine's.
    origin = request.headers.get("origin")
    if origin is None:
        return False
    settings: Settings = request.app.state.settings
    public = urlsplit(settings.api_base_url)
    scheme, _, host = origin.partition("://")
    if host == public.netloc:
        # Of the name that the operator gave we know the scheme: a page without TLS may be anybody's on the way.
        return scheme != public.scheme
    return host != request.headers.get("host") or not host

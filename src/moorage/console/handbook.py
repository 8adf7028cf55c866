"""The handbook at `/docs`: public pages, made by `scripts/handbook build` from `docs/` and from the code.

Like the console, it answers only what no route of the API has answered, and leaves `/docs/api` to the console, which brings that page.
"""

from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.console.built_files import BuiltFile, answer_with, built_files
from moorage.console.serving import content_security_policy

BUILT_HANDBOOK = Path(__file__).parent / "dist-handbook"
"""Where `scripts/handbook build` puts it. It is not in the repository."""

ADDRESS = "/docs"
_API_REFERENCE = f"{ADDRESS}/api"
_NOT_FOUND = "/404.html"


class Handbook:
    """An ASGI application for what is below `/docs`; everything else goes on to `otherwise`, and all of it where nothing was
    built."""

    def __init__(self, built: Path, gateway_base_url: str, otherwise: ASGIApp, not_found: ASGIApp) -> None:
        self._otherwise = otherwise
        self._not_found = not_found
        """Says to programs that nothing is there."""
        self._files = built_files(built)
        self._policy = content_security_policy(gateway_base_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope)(scope, receive, send)

    def _answer(self, scope: Scope) -> ASGIApp:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD") or not self._files:
            return self._otherwise
        path: str = scope["path"]
        if path == ADDRESS:
            return RedirectResponse(f"{ADDRESS}/")
        if path == _API_REFERENCE or not path.startswith(f"{ADDRESS}/"):
            return self._otherwise
        file = self._find(path.removeprefix(ADDRESS))
        if file is not None:
            return answer_with(file, scope, "no-cache", self._policy)
        if "text/html" in Headers(scope=scope).get("accept", ""):
            return answer_with(self._files[_NOT_FOUND], scope, "no-cache", self._policy, status=404)
        return self._not_found

    def _find(self, path: str) -> BuiltFile | None:
        """Pages have no ending in their address."""
        if path == "/":
            path = "/index"
        return self._files.get(path) or self._files.get(f"{path}.html")

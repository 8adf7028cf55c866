"""The web console's built files, the page that shows the API's description, and the rules under which a browser runs them.

The console is a client of the public API and nothing more: this package reads files and knows no domain. It answers
only what no route of the API has answered, so it can never stand in front of one.
"""

from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import FileResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.console.built_files import BuiltFile, answer_with, built_files

BUILT_FILES = Path(__file__).parent / "dist"
"""Where `scripts/console build` puts them. They are not in the repository."""

_PAGE = "/index.html"
_HASHED = "/assets/"
"""The build names these files by their content, so a name never changes its meaning."""


class Console:
    """An ASGI application for what the router does not know: a built file, else the one page for a browser's address,
    else whatever `otherwise` says. Only names that were found at start are looked up, so no path can climb out."""

    def __init__(self, built: Path, gateway_base_url: str, otherwise: ASGIApp) -> None:
        self._otherwise = otherwise
        files = built_files(built)
        self._files = files if _PAGE in files else {}
        self._policy = content_security_policy(gateway_base_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        file = self._find(scope) if scope["type"] == "http" else None
        if file is None:
            await self._otherwise(scope, receive, send)
            return
        await self._answer(file, scope)(scope, receive, send)

    def _find(self, scope: Scope) -> BuiltFile | None:
        path: str = scope["path"]
        if scope["method"] not in ("GET", "HEAD") or path.startswith("/api/"):
            return None
        if path in self._files:
            return self._files[path]
        if (folder := f"{path.rstrip('/')}{_PAGE}") in self._files:
            return self._files[folder]
        # Everything else that a person opens is one page, which reads the address itself. Programs get their 404.
        # The first page is everybody's: whoever watches whether we are there asks for it and takes anything.
        is_navigation = path == "/" or "text/html" in Headers(scope=scope).get("accept", "")
        return self._files.get(_PAGE) if is_navigation and not path.startswith(_HASHED) else None

    def _answer(self, file: BuiltFile, scope: Scope) -> FileResponse:
        kept = "public, max-age=31536000, immutable" if scope["path"].startswith(_HASHED) else "no-cache"
        return answer_with(file, scope, kept, self._policy)


def content_security_policy(gateway_base_url: str) -> str:
    """Scripts come from our own files alone. Styles may be inline: the component library writes its theme that way.
    The one other address that the page may talk to is the gateway, for the playground."""
    gateway = urlsplit(gateway_base_url)
    rules = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self' 'unsafe-inline'",
        "font-src": "'self'",
        "img-src": "'self' data:",
        "manifest-src": "'self'",
        "connect-src": f"'self' {gateway.scheme}://{gateway.netloc}",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())

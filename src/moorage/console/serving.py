"""The web console's built files, and the rules under which a browser runs them.

The console is a client of the public API and nothing more: this package reads files and knows no domain. It answers
only what no route of the API has answered, so it can never stand in front of one.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import FileResponse
from starlette.types import ASGIApp, Receive, Scope, Send

BUILT_FILES = Path(__file__).parent / "dist"
"""Where `scripts/console build` puts them. They are not in the repository."""

_PAGE = "/index.html"
_HASHED = "/assets/"
"""The build names these files by their content, so a name never changes its meaning."""


@dataclass(frozen=True)
class _File:
    path: Path
    compressed: Path | None
    media_type: str | None


class Console:
    """An ASGI application for what the router does not know: a built file, else the one page for a browser's address,
    else whatever `otherwise` says. Only names that were found at start are looked up, so no path can climb out."""

    def __init__(self, built: Path, gateway_base_url: str, otherwise: ASGIApp) -> None:
        self._otherwise = otherwise
        self._files = _files(built)
        self._policy = content_security_policy(gateway_base_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        file = self._find(scope) if scope["type"] == "http" else None
        if file is None:
            await self._otherwise(scope, receive, send)
            return
        await self._answer(file, scope)(scope, receive, send)

    def _find(self, scope: Scope) -> _File | None:
        path: str = scope["path"]
        if scope["method"] not in ("GET", "HEAD") or path.startswith("/api/"):
            return None
        if path in self._files:
            return self._files[path]
        # Everything else that a person opens is one page, which reads the address itself. Programs get their 404.
        # The first page is everybody's: whoever watches whether we are there asks for it and takes anything.
        is_navigation = path == "/" or "text/html" in Headers(scope=scope).get("accept", "")
        return self._files.get(_PAGE) if is_navigation and not path.startswith(_HASHED) else None

    def _answer(self, file: _File, scope: Scope) -> FileResponse:
        is_hashed = scope["path"].startswith(_HASHED)
        headers = {
            "Cache-Control": "public, max-age=31536000, immutable" if is_hashed else "no-cache",
            "Content-Security-Policy": self._policy,
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Vary": "Accept-Encoding",
        }
        if file.compressed is not None and "gzip" in Headers(scope=scope).get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return FileResponse(file.compressed, headers=headers, media_type=file.media_type)
        return FileResponse(file.path, headers=headers, media_type=file.media_type)


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


def _files(built: Path) -> dict[str, _File]:
    if not (built / _PAGE.lstrip("/")).is_file():
        return {}
    paths = [
        path for path in built.rglob("*") if path.is_file() and path.suffix != ".gz" and path.name[0] != "."
    ]
    return {f"/{path.relative_to(built).as_posix()}": _file(path) for path in paths}


def _file(path: Path) -> _File:
    compressed = path.with_name(f"{path.name}.gz")
    # The machine's own table of types may not know the newer ones.
    media_types = {".woff2": "font/woff2", ".js": "text/javascript", ".svg": "image/svg+xml"}
    return _File(path, compressed if compressed.is_file() else None, media_types.get(path.suffix))

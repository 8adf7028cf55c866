"""Files that a build left behind, as a browser gets them. What is not found at start cannot be asked for, so no path can climb
out of its folder."""

from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import FileResponse
from starlette.types import Scope


@dataclass(frozen=True)
class BuiltFile:
    path: Path
    compressed: Path | None
    media_type: str | None


def built_files(folder: Path) -> dict[str, BuiltFile]:
    """By the path below the folder, with a slash in front. Empty where nothing was built."""
    paths = [
        path for path in folder.rglob("*") if path.is_file() and path.suffix != ".gz" and path.name[0] != "."
    ]
    return {f"/{path.relative_to(folder).as_posix()}": _file(path) for path in paths}


def answer_with(file: BuiltFile, scope: Scope, kept: str, policy: str, status: int = 200) -> FileResponse:
    headers = {
        "Cache-Control": kept,
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Vary": "Accept-Encoding",
    }
    path = file.path
    if file.compressed is not None and "gzip" in Headers(scope=scope).get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        path = file.compressed
    return FileResponse(path, status_code=status, headers=headers, media_type=file.media_type)


def _file(path: Path) -> BuiltFile:
    compressed = path.with_name(f"{path.name}.gz")
    # The machine's own table of types may not know the newer ones. Of a compressed file it would tell that it is one.
    media_types = {
        ".woff2": "font/woff2",
        ".js": "text/javascript",
        ".svg": "image/svg+xml",
        ".html": "text/html",
        ".css": "text/css",
    }
    return BuiltFile(path, compressed if compressed.is_file() else None, media_types.get(path.suffix))

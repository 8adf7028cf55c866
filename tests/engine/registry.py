"""A small image registry on loopback, for pulls: open, or behind a password."""

import asyncio
import base64
import gzip
import hashlib
import io
import json
import tarfile
from types import TracebackType
from typing import Any, Self

from aiohttp import web

USERNAME, PASSWORD = "ann", "registry-canary-0815"
_PIECE_BYTES = 1 << 18
_MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"


class Registry:
    """Holds `chat` in two versions of content and `foreign`, built for a processor that nobody has."""

    def __init__(self, architecture: str, *, needs_password: bool = False) -> None:
        self._needs_password = needs_password
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.contents: dict[str, bytes] = {}
        """Manifests by digest: what a name stood for once is still there."""
        self.requests: list[str] = []
        self.layers_at: str | None = None
        """Where layers are said to be, if not here; configurations always are."""
        self.pause_s = 0.0
        """Between pieces of a blob, so that somebody can watch."""
        self.publish("chat", architecture)
        self.publish("newer-chat", architecture)
        self.publish("foreign", "s390x")

    def publish(self, content: str, architecture: str, name: str | None = None) -> None:
        layer, plain_digest = _layer(content)
        config = json.dumps(
            {
                "architecture": architecture,
                "os": "linux",
                "config": {"Cmd": ["/file"], "ExposedPorts": {"9000/tcp": {}, "53/udp": {}}},
                "rootfs": {"type": "layers", "diff_ids": [plain_digest]},
            }
        ).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST_TYPE,
            "config": self._blob(config, "application/vnd.docker.container.image.v1+json"),
            "layers": [self._blob(layer, "application/vnd.docker.image.rootfs.diff.tar.gzip")],
        }
        self.manifests[name or content] = json.dumps(manifest).encode()
        self.contents[self.digest(name or content)] = self.manifests[name or content]

    def digest(self, name: str) -> str:
        return digest_of(self.manifests[name])

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_get("/v2/{path:.*}", self._answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.host = f"127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    def _blob(self, data: bytes, media_type: str) -> dict[str, Any]:
        self.blobs[digest_of(data)] = data
        return {"mediaType": media_type, "size": len(data), "digest": digest_of(data)}

    async def _send(self, request: web.Request, data: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
        response.content_length = len(data)
        await response.prepare(request)
        for start in range(0, len(data), _PIECE_BYTES):
            await response.write(data[start : start + _PIECE_BYTES])
            await asyncio.sleep(self.pause_s)
        return response

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        self.requests.append(path)
        expected = base64.b64encode(f"{USERNAME}:{PASSWORD}".encode()).decode()
        if self._needs_password and request.headers.get("Authorization") != f"Basic {expected}":
            return _problem(401, "UNAUTHORIZED", {"WWW-Authenticate": 'Basic realm="test"'})
        if path == "":
            return web.json_response({})
        name, _, rest = path.partition("/")
        kind, _, reference = rest.partition("/")
        if kind == "blobs" and self.layers_at and not self.blobs[reference].startswith(b"{"):
            return web.Response(status=307, headers={"Location": f"{self.layers_at}/{reference}"})
        if kind == "blobs" and reference in self.blobs:
            return await self._send(request, self.blobs[reference])
        if kind == "manifests" and name in self.manifests:
            manifest = self.contents.get(reference, self.manifests[name])
            headers = {"Docker-Content-Digest": digest_of(manifest), "Content-Type": _MANIFEST_TYPE}
            return web.Response(body=manifest, headers=headers)
        return _problem(404, "MANIFEST_UNKNOWN", {})


def _problem(status: int, code: str, headers: dict[str, str]) -> web.Response:
    message = code.lower().replace("_", " ")
    body = {"errors": [{"code": code, "message": message, "detail": None}]}
    return web.json_response(body, status=status, headers=headers)


def _layer(content: str) -> tuple[bytes, str]:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        entry = tarfile.TarInfo("file")
        entry.size, entry.mode = len(content), 0o755
        archive.addfile(entry, io.BytesIO(content.encode()))
    return gzip.compress(plain.getvalue(), mtime=0), digest_of(plain.getvalue())


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"

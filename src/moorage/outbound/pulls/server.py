"""What an engine sees of the proxy: so much of the registry's protocol as a pull takes."""

import base64
import hmac
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager

from aiohttp import web

from moorage.kit.errors import ImageError
from moorage.outbound.pulls.layer import layer_bytes
from moorage.outbound.pulls.ticket import PULL_FOLDER, Pull
from moorage.outbound.registry.client import Document

_RANGE = re.compile(r"bytes=([0-9]{1,18})-")
_VERSION = {"Docker-Distribution-Api-Version": "registry/2.0"}
_CHALLENGE = _VERSION | {"WWW-Authenticate": 'Basic realm="moorage"'}
_BYTES = "application/octet-stream"
_REQUESTS_PER_PART = 50
"""Of an image: an engine asks for each once, and again where a connection broke. A machine that asks without end takes the time of the
process that looks after everybody's containers."""

_Handler = Callable[[web.Request, Pull], Awaitable[web.StreamResponse]]


class PullServer:
    def __init__(self) -> None:
        self._pulls: dict[str, Pull] = {}

    def application(self) -> web.Application:
        application = web.Application()
        name = f"/v2/{PULL_FOLDER}/{{id}}"
        application.router.add_get("/v2/", self._for_its_pull(_hello))
        application.router.add_get(f"{name}/manifests/{{reference}}", self._for_its_pull(_manifest))
        application.router.add_get(f"{name}/blobs/{{digest}}", self._for_its_pull(self._blob))
        return application

    @contextmanager
    def serving(self, pull: Pull) -> Iterator[None]:
        self._pulls[pull.id] = pull
        try:
            yield
        finally:
            del self._pulls[pull.id]

    def _for_its_pull(self, handler: _Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            pull = self._pull_of(request)
            if pull is None:
                return _last(_problem(401, "UNAUTHORIZED", _CHALLENGE))
            pull.requests += 1
            if pull.requests > _REQUESTS_PER_PART * (len(pull.layers) + 3):
                return _last(_problem(429, "TOOMANYREQUESTS"))
            return await handler(request, pull)

        return handle

    def _pull_of(self, request: web.Request) -> Pull | None:
        """Whose password it is; and only that pull's names are there for it."""
        scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
        try:
            username, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            return None
        pull = self._pulls.get(username)
        if scheme != "Basic" or pull is None or request.match_info.get("id", pull.id) != pull.id:
            return None
        return pull if hmac.compare_digest(password.encode(), pull.secret.encode()) else None

    async def _blob(self, request: web.Request, pull: Pull) -> web.StreamResponse:
        digest = request.match_info["digest"]
        if digest == pull.image.config_document.digest:
            return _document(pull.image.config_document, _BYTES)
        if digest not in pull.layers:
            return _problem(404, "BLOB_UNKNOWN")
        size_bytes = pull.layers[digest].size_bytes
        first_byte = _first_byte(request)
        if first_byte > 0 and first_byte >= size_bytes:
            return _problem(416, "RANGE_INVALID")
        response = _layer_response(digest, first_byte, size_bytes)
        if request.method == "HEAD":
            return response
        async with pull.streams:
            if pull.id not in self._pulls:
                return _problem(404, "NAME_UNKNOWN")
            return await _stream(request, response, pull, digest, first_byte)


async def _hello(request: web.Request, pull: Pull) -> web.StreamResponse:
    return web.json_response({}, headers=_VERSION)


async def _manifest(request: web.Request, pull: Pull) -> web.StreamResponse:
    document = pull.image.manifest_document
    if request.match_info["reference"] != document.digest:
        return _problem(404, "MANIFEST_UNKNOWN")
    return _document(document, pull.image.manifest.media_type)


async def _stream(
    request: web.Request, response: web.StreamResponse, pull: Pull, digest: str, first_byte: int
) -> web.StreamResponse:
    try:
        async with aclosing(layer_bytes(pull, digest, first_byte)) as chunks:
            async for chunk in chunks:
                if not response.prepared:
                    await response.prepare(request)
                await response.write(chunk)
    except ImageError:
        # What happened is told by the pull, not by way of the engine: all that this decides is whether it asks again.
        if not response.prepared:
            return _problem(404, "BLOB_UNKNOWN") if pull.refused.done() else _problem(502, "UNAVAILABLE")
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError from None
    return response


def _first_byte(request: web.Request) -> int:
    """What is not a range of the one kind that engines ask for is a request for everything, as HTTP has it."""
    match = _RANGE.fullmatch(request.headers.get("Range", ""))
    return int(match[1]) if match else 0


def _layer_response(digest: str, first_byte: int, size_bytes: int) -> web.StreamResponse:
    headers = {"Content-Type": _BYTES, "Docker-Content-Digest": digest, "Accept-Ranges": "bytes"}
    if first_byte:
        headers["Content-Range"] = f"bytes {first_byte}-{size_bytes - 1}/{size_bytes}"
    response = web.StreamResponse(status=206 if first_byte else 200, headers=headers)
    response.content_length = size_bytes - first_byte
    return response


def _document(document: Document, media_type: str) -> web.Response:
    headers = {"Content-Type": media_type, "Docker-Content-Digest": document.digest}
    return web.Response(body=document.body, headers=headers)


def _last(response: web.Response) -> web.Response:
    """On its connection. How often one may connect, the firewall says."""
    response.force_close()
    return response


def _problem(status: int, code: str, headers: dict[str, str] | None = None) -> web.Response:
    errors = {"errors": [{"code": code, "message": code.lower().replace("_", " "), "detail": None}]}
    return web.json_response(errors, status=status, headers=headers)

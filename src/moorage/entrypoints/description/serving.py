"""`GET /openapi.json`."""

import asyncio
import gzip
import json
from collections.abc import Sequence
from functools import cached_property

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from moorage.entrypoints.description.document import describe


class DescriptionRoute(Route):
    """Made when somebody asks for it first, beside the loop: that takes as long as a hundred other requests."""

    def __init__(self, path: str, routes: Sequence[BaseRoute]) -> None:
        super().__init__(path, self._answer, include_in_schema=False)
        self._routes = routes

    async def _answer(self, request: Request) -> Response:
        headers = {"Vary": "Accept-Encoding"}
        body = await asyncio.to_thread(lambda: self._body)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            body = await asyncio.to_thread(lambda: self._compressed)
        return Response(body, headers=headers, media_type="application/json")

    @cached_property
    def _body(self) -> bytes:
        return json.dumps(describe(self._routes), ensure_ascii=False, separators=(",", ":")).encode()

    @cached_property
    def _compressed(self) -> bytes:
        return gzip.compress(self._body, mtime=0)

"""What a role without an API says to whoever starts it again: `/livez`, it goes on; `/readyz`, it could do its work.

A port of its own, plain HTTP, no body. A kubelet asks.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from moorage.engines.engines import Engines
from moorage.entrypoints.schema_repository import require_expected_schema
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.keys import require_same_keys

log = structlog.get_logger()

Ready = Callable[[], Awaitable[None]]
"""Raises why it is not."""

_ANSWERS_WITHIN_S = 3.0
_REQUEST_BYTES = 8192


async def answer_health(listen: str | None, ready: Ready) -> None:
    """For good."""
    if listen is None:
        await asyncio.Event().wait()
        return
    host, _, port = listen.rpartition(":")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(
            OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(2 * _ANSWERS_WITHIN_S):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(await _answer(request.split(b" ", 2)[1], ready))
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, host.strip("[]"), int(port), limit=_REQUEST_BYTES)
    async with server:
        await server.serve_forever()


async def _answer(path: bytes, ready: Ready) -> bytes:
    status = "404 Not Found"
    if path == b"/livez":
        status = "200 OK"
    elif path == b"/readyz":
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN_S):
                await ready()
            status = "200 OK"
        except Exception as exc:  # noqa: BLE001 - whatever it is, the answer is "not ready"
            log.warning("not_ready", error=repr(exc))
            status = "503 Service Unavailable"
    return f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


@dataclass
class ControllerReadiness:
    """It could lead: its database answers, with tables of its version and secrets sealed with its keys, and each engine that it
    began with has answered it once."""

    database: Database
    keyring: Keyring
    engines: Engines
    _answered: set[str] = field(init=False, default_factory=set)

    async def ready(self) -> None:
        async with self.database.reading() as session:
            await require_expected_schema(session)
            await require_same_keys(session, self.keyring)
        for name, engine in self.engines.by_name().items():
            if name not in self._answered and self.engines.places(name):
                await engine.capacity()
                self._answered.add(name)

"""Machines for the remote engine, on loopback: one that says whatever a test wants, and a way to it that breaks."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from moorage.engines.remote.codec import encode
from moorage.engines.remote.engine import RemoteEngine
from moorage.engines.remote.machine import Machine, PlacedReplica
from moorage.kit.clock import Clock, system_clock
from moorage.kit.ids import ReplicaId
from moorage.outbound.pulls.proxy import PullProxy

LOOPBACK = "127.0.0.1"
CREDENTIAL = "credential-canary-2718"
Behaviour = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Rows:
    """The database's word on replicas."""

    def __init__(self, rows: Mapping[ReplicaId, PlacedReplica]) -> None:
        self.rows = rows

    async def placed(self, replica_ids: Collection[ReplicaId]) -> Mapping[ReplicaId, PlacedReplica]:
        return {one: self.rows[one] for one in replica_ids if one in self.rows}


def engine_at(
    port: int,
    rows: Mapping[ReplicaId, PlacedReplica] | None = None,
    *,
    infrastructure: str = "community",
    pulls: PullProxy | None = None,
    clock: Clock = system_clock,
    credential: str = CREDENTIAL,
) -> RemoteEngine:
    machine = Machine("machine-1", infrastructure, LOOPBACK, port, credential)
    return RemoteEngine(machine, Rows(rows or {}), clock, pulls)


@asynccontextmanager
async def serving(application: web.Application) -> AsyncIterator[int]:
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@asynccontextmanager
async def machine_that(behaves: Behaviour) -> AsyncIterator[int]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", behaves)
    async with serving(application) as port:
        yield port


def envelope(answer: Any = None, **changes: Any) -> bytes:
    hints = {"epoch": "e", "sequence": 0}
    now_s = system_clock.now().timestamp()
    whole = {"time_s": now_s, "monotonic_s": 1000.0, "hints": hints, "answer": encode(answer)}
    return json.dumps(whole | changes).encode()


def says(answer: Any = None, **changes: Any) -> Behaviour:
    return sends(lambda: envelope(answer, **changes))


def fails(kind: str, code: str, message: str) -> Behaviour:
    return says(failure={"kind": kind, "code": code, "message": message})


def sends(body: bytes | Callable[[], bytes], status: int = 200, **headers: str) -> Behaviour:
    async def behave(request: web.Request) -> web.StreamResponse:
        text = body() if callable(body) else body
        return web.Response(
            body=text, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    return behave


def streams(
    piece: bytes, times: int | None = None, pause_s: float = 0.0, announced_bytes: int | None = None
) -> Behaviour:
    """So often, or for ever."""

    async def behave(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = announced_bytes
        await response.prepare(request)
        sent = 0
        while times is None or sent < times:
            await response.write(piece)
            await asyncio.sleep(pause_s)
            sent += 1
        return response

    return behave


async def silence(request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("it never speaks")


class BreakingWay:
    """Between an engine and a machine: of each connection's answers, so many bytes pass before it breaks."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.cuts: list[int] = []
        """One for each connection, in turn; those after them hold."""
        self.passed: list[bytes] = []
        """Of each connection."""
        self._under_way: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[int]:
        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._under_way.add(asyncio.create_task(self._pass_on(reader, writer)))

        server = await asyncio.start_server(begin, LOOPBACK, 0)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._port)
        left = self.cuts.pop(0) if self.cuts else None
        index = len(self.passed)
        self.passed.append(b"")

        async def ask() -> None:
            while part := await reader.read(65536):
                far_writer.write(part)

        asking = asyncio.ensure_future(ask())
        try:
            while left != 0 and (part := await far_reader.read(65536 if left is None else left)):
                left = left - len(part) if left is not None else None
                self.passed[index] += part
                writer.write(part)
                await writer.drain()
        finally:
            asking.cancel()
            far_writer.close()
            writer.close()

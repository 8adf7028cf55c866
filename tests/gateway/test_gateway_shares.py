"""Connections are shared out: idle ones at one address, or of one source, cost nobody else theirs."""

import asyncio
import contextlib
import json
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from gateway_support import Container, Place, RawAnswer, RawConnection, eventually, make_place, new_key, table

from moorage.gateway import stats
from moorage.gateway.connection_shares import share_connections
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route
from moorage.kit import ids

ENDPOINTS, MANAGEMENT, PER_SOURCE = 40, 20, 10
PROJECT, CONTAINER = ids.new_project_id(), ids.new_container_id()
KEY = new_key(PROJECT)
OTHER_SOURCE = "127.0.0.2"


@contextlib.contextmanager
def idle_connections(port: int, count: int, source: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            connection = stack.enter_context(socket.socket())
            connection.bind((source, 0))
            # Not waited for: one beyond the limit may be gone before it is there, or wait to be accepted.
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
            opened.append(connection)
        yield opened


def closed(connections: list[socket.socket]) -> int:
    count = 0
    for connection in connections:
        with contextlib.suppress(BlockingIOError):
            try:
                count += connection.recv(1) == b""
            except ConnectionError:
                count += 1
    return count


async def ask(port: int, request: str, source: str = "127.0.0.1") -> RawAnswer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        return await RawConnection(reader, writer).ask(request.encode())
    finally:
        writer.close()


def endpoint_request(extra: str = "") -> str:
    return f"GET /c/{CONTAINER}/v1 HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {KEY.secret}\r\n{extra}\r\n"


@contextlib.asynccontextmanager
async def serving(container: Container, **overrides: object) -> AsyncIterator[tuple[Place, DataPlane]]:
    with own_place(**overrides) as place:
        gateway = place.dataplane()
        await gateway.start()
        await gateway.apply(table([Route(CONTAINER, PROJECT, (container.server(),))], [KEY]))
        yield place, gateway


@contextlib.contextmanager
def own_place(**overrides: object) -> Iterator[Place]:
    limits = {"endpoint_connections": ENDPOINTS, "management_connections": MANAGEMENT}
    with tempfile.TemporaryDirectory(prefix="moor-gw-") as folder:
        Path(folder).chmod(0o755)
        place = make_place(Path(folder), **(limits | overrides))
        yield place
        place.kill()


async def held(gateway: DataPlane, frontend: str) -> int:
    rows = stats.stat_rows(await gateway.process.worker.ask(f"show stat {frontend} {stats.FRONTENDS} -1"))
    return int(rows[0]["scur"])


async def test_a_full_management_address_leaves_endpoints_alone(container: Container) -> None:
    """And the other way round. From many sources at that: none is beyond its part."""
    no_limit = {"management_connections_per_source": None, "endpoint_connections_per_source": None}
    async with serving(container, **no_limit) as (place, gateway):
        with idle_connections(place.management_port, 5 * MANAGEMENT):
            await eventually(lambda: _holds(gateway, "management", MANAGEMENT))
            for _ in range(ENDPOINTS + MANAGEMENT):
                assert (await ask(place.port, endpoint_request())).status == 200
            assert await held(gateway, "management") == MANAGEMENT
        with idle_connections(place.port, 3 * ENDPOINTS):
            await eventually(lambda: _holds(gateway, "endpoints", ENDPOINTS))
            # Nobody is behind the API's socket here; that it says so is the gateway's answer.
            assert (await ask(place.management_port, "GET / HTTP/1.1\r\nHost: g\r\n\r\n")).status == 503


async def _holds(gateway: DataPlane, frontend: str, connections: int) -> bool:
    return await held(gateway, frontend) == connections


@pytest.mark.parametrize("address", ["endpoints", "management"])
async def test_one_source_holds_its_part_and_no_more(container: Container, address: str) -> None:
    parts = {
        "management_connections_per_source": PER_SOURCE,
        "endpoint_connections_per_source": PER_SOURCE,
    }
    async with serving(container, **parts) as (place, gateway):
        port = place.port if address == "endpoints" else place.management_port
        with idle_connections(port, 3 * PER_SOURCE) as connections:
            await eventually(lambda: closed(connections) == 2 * PER_SOURCE)
            assert await held(gateway, address) == PER_SOURCE
            request = endpoint_request() if address == "endpoints" else "GET / HTTP/1.1\r\nHost: g\r\n\r\n"
            assert (await ask(port, request, OTHER_SOURCE)).status == (200 if address == "endpoints" else 503)
        # Whoever lets go may come again.
        await eventually(lambda: _holds(gateway, address, 0))
        with idle_connections(port, 1) as again:
            await eventually(lambda: _holds(gateway, address, 1))
            assert closed(again) == 0


async def test_a_body_that_comes_slowly_waits_at_the_gateway(container: Container) -> None:
    async with serving(container, request_timeout_s=1) as (place, _):
        reached: list[bytes] = []

        async def api(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reached.append(await reader.readuntil(b"}"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        server = await asyncio.start_unix_server(api, place.config.api_socket)
        place.config.api_socket.chmod(0o777)
        head = "POST /x HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\n"
        async with server:
            answer = await ask(place.management_port, head + "{")
            assert (answer.status, json.loads(answer.body)["code"]) == (408, "request_timeout")
            assert reached == []
            assert (await ask(place.management_port, head + "{}")).status == 200
            assert reached[0].endswith(b"{}")


@pytest.mark.parametrize("named", ["X-Forwarded-For", "close, X-Forwarded-For", "keep-alive, x-request-id"])
async def test_a_client_cannot_have_our_headers_taken_out(container: Container, named: str) -> None:
    async with serving(container) as (place, _):
        answer = await ask(place.port, endpoint_request(f"Connection: {named}\r\n"))
    headers = {name.lower(): value for name, value in json.loads(answer.body)["headers"].items()}
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert "x-" not in headers.get("connection", "").lower()


@pytest.mark.parametrize(
    ("descriptors", "wanted", "endpoints", "management"),
    [(20_000, 2000, 6910, 2000), (1024, 2000, 278, 92), (1_000_000, 2000, 87_910, 2000), (64, 10, 6, 2)],
)
def test_connections_follow_the_limit_of_open_files(
    descriptors: int, wanted: int, endpoints: int, management: int
) -> None:
    shares = share_connections(descriptors, wanted)
    assert (shares.endpoints, shares.management) == (endpoints, management)
    assert 2 * (shares.endpoints + shares.management) <= max(16, descriptors)

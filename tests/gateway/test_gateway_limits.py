"""What is too large, too much or too slow, and what of it is sent again."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from gateway_support import (
    Container,
    Key,
    Place,
    RawConnection,
    eventually,
    make_place,
    new_key,
    raw_connection,
    run_container,
    table,
)

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route, Server, TrafficLimits
from moorage.kit import ids

PROJECT, ORGANIZATION = ids.new_project_id(), ids.new_organization_id()
CONTAINER = ids.new_container_id()


def counted_key() -> Key:
    key = new_key(PROJECT)
    entry = dataclasses.replace(key.entry, key_id=ids.new_api_key_id(), organization_id=ORGANIZATION)
    return Key(key.secret, entry)


KEY = counted_key()


@pytest.fixture
def place(short_folder: Path) -> Iterator[Place]:
    place = make_place(
        short_folder, key_requests_per_s=4, organization_requests_per_s=6, client_idle_timeout_s=1
    )
    yield place
    place.kill()


async def serve(gateway: DataPlane, *servers: Server, **limits: int | bool) -> None:
    route = Route(CONTAINER, PROJECT, servers, limits=TrafficLimits(**limits))  # type: ignore[arg-type]
    await gateway.apply(table([route], [KEY]))


async def post(client: aiohttp.ClientSession, body: bytes, path: str = "/v1") -> tuple[int, str | None]:
    async with client.post(f"/c/{CONTAINER}{path}", headers=KEY.headers, data=body) as response:
        if response.status == 200:
            return 200, None
        return response.status, (await response.json())["error"]["code"]


async def test_a_container_sets_how_large_a_body_may_be(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, container.server(), max_body_bytes=1000)
    assert await post(client, b"x" * 1000) == (200, None)
    assert await post(client, b"x" * 1001) == (413, "body_too_large")
    await serve(gateway, container.server(), max_body_bytes=50_000)
    assert await post(client, b"x" * 50_000) == (200, None)


async def test_the_usual_limit_is_100_megabytes(
    gateway: DataPlane, place: Place, container: Container
) -> None:
    await serve(gateway, container.server())
    for length, status in ((100_000_001, b"413"), (10**17, b"413")):
        async with raw_connection(place.port) as connection:
            answer = await head_for(connection, length)
            assert answer.split(b" ")[1] == status
    assert container.seen == []


async def head_for(connection: RawConnection, length: int) -> bytes:
    """The answer to a request that announces a body and does not send it."""
    head = f"POST /c/{CONTAINER}/v1 HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {KEY.secret}\r\n"
    connection.writer.write(f"{head}Content-Length: {length}\r\n\r\n".encode())
    async with asyncio.timeout(10):
        return await connection.reader.readline()


async def test_headers_of_more_than_15_kilobytes(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, container.server())
    for size, status in ((7_000, 200), (8_100, 400)):
        # Each of them is short enough for any library to read.
        headers = {**KEY.headers, "X-One": "x" * size, "X-Other": "x" * size}
        async with client.get(f"/c/{CONTAINER}/v1", headers=headers) as response:
            assert response.status == status
    # HAProxy's own page: it refuses before there is a request that could have an id.
    assert response.content_type == "text/html"
    assert len(container.seen) == 1


async def test_a_body_of_unannounced_length_is_not_measured(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    """HAProxy 2.8 has no rule that looks at a body while it passes. So the container gets it, piece by piece."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b"x" * 10_000

    await serve(gateway, container.server(), max_body_bytes=50_000)
    async with client.post(f"/c/{CONTAINER}/v1", headers=KEY.headers, data=pieces()) as response:
        assert response.status == 200
    assert container.seen[0].headers["Transfer-Encoding"] == "chunked"
    assert [len(body) for body in container.bodies] == [100_000]


@pytest.mark.long
async def test_a_container_sets_how_long_it_may_be_silent(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, container.server(), request_timeout_s=1)
    started = time.monotonic()
    assert await post(client, b"", "/hold") == (504, "container_timeout")
    quick_s = time.monotonic() - started
    # Longer than a client may dawdle.
    await serve(gateway, container.server(), request_timeout_s=30)
    held = asyncio.create_task(post(client, b"", "/hold"))
    await eventually(lambda: container.waiting == 1)
    await asyncio.wait([held], timeout=2.5)
    assert not held.done()
    container.release.set()
    assert await held == (200, None)
    assert quick_s < 20


@pytest.mark.long
async def test_a_container_sets_how_long_a_websocket_may_be_silent(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, container.server(), idle_timeout_s=1)
    async with client.ws_connect(f"/c/{CONTAINER}/socket", headers=KEY.headers, autoping=False) as connection:
        await connection.send_str("hello")
        assert await connection.receive_str() == "echo hello"
        async with asyncio.timeout(10):
            ended = await connection.receive()
    assert ended.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
    # Longer than this gateway lets other clients dawdle.
    await serve(gateway, container.server(), idle_timeout_s=30)
    async with client.ws_connect(f"/c/{CONTAINER}/socket", headers=KEY.headers) as connection:
        silence = asyncio.create_task(connection.receive_str())
        await asyncio.wait([silence], timeout=2.5)
        assert not silence.done()
        await connection.send_str("still there")
        assert await silence == "echo still there"


async def test_a_client_that_stops_sending_is_let_go_of(
    gateway: DataPlane, place: Place, container: Container
) -> None:
    await serve(gateway, container.server())
    async with raw_connection(place.port) as connection:
        answer = await head_for(connection, 1000)
        assert answer.split(b" ")[1] == b"400"


@pytest.mark.long
async def test_a_key_has_a_share_and_an_organization_too(
    gateway: DataPlane, place: Place, container: Container, client: aiohttp.ClientSession
) -> None:
    """4 and 6 a second, counted over 10 s: 40 and 60."""
    others = [counted_key() for _ in range(2)]
    route = Route(CONTAINER, PROJECT, (container.server(),))
    await gateway.apply(table([route], [KEY, *others]))

    async def statuses(key: Key, requests: int) -> list[int]:
        found = []
        for _ in range(requests):
            async with client.get(f"/c/{CONTAINER}/v1", headers=key.headers) as response:
                found.append(response.status)
                if response.status == 429:
                    assert response.headers["Retry-After"] == "1"
                    assert (await response.json())["error"]["code"] == "rate_limited"
        return found

    assert await statuses(KEY, 200) == [200] * 40 + [429] * 160
    assert await statuses(others[0], 100) == [200] * 20 + [429] * 80
    assert await statuses(others[1], 1) == [429]
    assert len(container.seen) == 60

    async def admitted_again() -> bool:
        # What was refused did not count, so a client that goes on trying gets in as soon as its share allows.
        return await statuses(KEY, 1) == [200]

    await eventually(admitted_again)


async def test_a_key_may_have_a_limit_of_its_own(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    """Below what every key may ask for, and changed at run time."""
    route = Route(CONTAINER, PROJECT, (container.server(),))
    key, free = counted_key(), counted_key()

    async def ask(key: Key) -> tuple[int, str | None]:
        async with client.get(f"/c/{CONTAINER}/v1", headers=key.headers) as response:
            return response.status, response.headers.get("Retry-After")

    async def limit(per_minute: int) -> Key:
        limited = Key(key.secret, dataclasses.replace(key.entry, requests_per_minute=per_minute))
        await gateway.apply(table([route], [limited, free]))
        return limited

    limited = await limit(4)
    assert [await ask(limited) for _ in range(6)] == [(200, None)] * 4 + [(429, "16")] * 2
    # What was refused did not count, and other keys are not concerned.
    await limit(5)
    assert [await ask(limited) for _ in range(2)] == [(200, None), (429, "13")]
    assert [await ask(free) for _ in range(10)] == [(200, None)] * 10
    await limit(1_000_000)
    # The share of every key holds all the same: 40, of which 5 are used.
    assert [status for status, _ in [await ask(limited) for _ in range(36)]] == [200] * 35 + [429]
    await limit(5)
    assert (await ask(limited))[0] == 429


async def test_an_unanswered_request_is_sent_again_only_where_asked_for(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    async with run_container() as other:
        # Whichever replica gets it first hangs up; the other one answers.
        hung_up: list[int] = []
        for one in (container, other):
            one.hang_up_once = hung_up
        servers = (container.server(), other.server())
        await serve(gateway, *servers)
        assert await post(client, b"{}", "/once") == (502, "container_closed_connection")
        hung_up.clear()
        await serve(gateway, *servers, retry_unanswered=True)
        assert await post(client, b"{}", "/once") == (200, None)
        assert len(container.seen) + len(other.seen) == 3

"""Many requests on one connection: each is judged by its own key, whatever came before it and whatever is remembered."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path

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
    table,
)

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route
from moorage.kit import ids
from moorage.kit.ids import ContainerId
from tests.certificates import write_certificate

PROJECT_A, PROJECT_B = ids.new_project_id(), ids.new_project_id()
CONTAINER_A, CONTAINER_B = ids.new_container_id(), ids.new_container_id()
KEY_A, KEY_B = new_key(PROJECT_A), new_key(PROJECT_B)
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HTTP2_HEADERS, HTTP2_SETTINGS = 1, 4
HTTP2_STATUS_BY_INDEX = {0x88: 200, 0x8C: 400, 0x8D: 404}


@pytest.fixture
async def routes(container: Container) -> list[Route]:
    return [
        Route(CONTAINER_A, PROJECT_A, (container.server(),)),
        Route(CONTAINER_B, PROJECT_B, (container.server(),)),
    ]


@pytest.fixture
async def connection(gateway: DataPlane, routes: list[Route], place: Place) -> AsyncIterator[RawConnection]:
    await gateway.apply(table(routes, [KEY_A, KEY_B]))
    async with raw_connection(place.port) as connection:
        yield connection


def bearer(key: Key, scheme: str = "Bearer") -> str:
    return f"Authorization: {scheme} {key.secret}\r\n"


async def status(connection: RawConnection, container_id: ContainerId, credentials: str) -> int:
    request = f"GET /c/{container_id}/v1 HTTP/1.1\r\nHost: g\r\n{credentials}\r\n"
    return (await connection.ask(request.encode())).status


A, B = bearer(KEY_A), bearer(KEY_B)
NO_LONGER_A = [
    "",
    A + A,
    A + B,
    B + A,
    f"Authorization: Basic {KEY_A.secret}\r\n",
    f"Authorization: Digest {KEY_A.secret}\r\n",
    f"Authorization: {KEY_A.secret}\r\n",
    f"Authorization: Bearer {KEY_A.secret[:-1]}\r\n",
    f"Authorization: Bearer {KEY_A.secret}x\r\n",
    f"Authorization: Bearer {KEY_A.secret.upper()}\r\n",
    f"Authorization: Bearer  {KEY_A.secret}\r\n",
    f"Authorization: Bearer {KEY_A.entry.key_hash_hex.upper()}\r\n",
    f"Authorization: {KEY_A.entry.key_hash_hex.upper()}Bearer {KEY_A.secret}\r\n",
    "Authorization: Bearer \r\n",
]


@pytest.mark.parametrize("credentials", NO_LONGER_A)
async def test_what_is_not_the_key_is_refused_also_after_the_key(
    connection: RawConnection, credentials: str
) -> None:
    for _ in range(2):
        assert await status(connection, CONTAINER_A, A) == 200
        assert await status(connection, CONTAINER_A, credentials) == 401
    assert await status(connection, CONTAINER_A, A) == 200


async def test_keys_of_two_projects_in_turn(connection: RawConnection) -> None:
    for credentials, own, foreign in [(A, CONTAINER_A, CONTAINER_B), (B, CONTAINER_B, CONTAINER_A)] * 3:
        assert await status(connection, own, credentials) == 200
        assert await status(connection, foreign, credentials) == 404
        assert await status(connection, own, credentials) == 200


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "bEARER"])
async def test_the_scheme_in_another_case_is_the_same_key(connection: RawConnection, scheme: str) -> None:
    for written in ["Bearer", scheme, "Bearer", scheme, scheme]:
        assert await status(connection, CONTAINER_A, bearer(KEY_A, written)) == 200
        assert await status(connection, CONTAINER_B, bearer(KEY_A, written)) == 404
    assert await status(connection, CONTAINER_B, bearer(KEY_B, scheme)) == 200


async def test_a_key_that_the_connection_knows_is_revoked_and_comes_back(
    connection: RawConnection, gateway: DataPlane, routes: list[Route]
) -> None:
    assert await status(connection, CONTAINER_A, A) == 200
    await gateway.apply(table(routes, [KEY_B]))
    assert await status(connection, CONTAINER_A, A) == 401
    assert await status(connection, CONTAINER_B, B) == 200
    assert await status(connection, CONTAINER_A, A) == 401
    await gateway.apply(table(routes, [KEY_A, KEY_B]))
    assert await status(connection, CONTAINER_A, A) == 200


async def test_a_key_that_the_connection_knows_expires(
    connection: RawConnection, gateway: DataPlane, routes: list[Route]
) -> None:
    short = new_key(PROJECT_A, expires_at_epoch_s=int(time.time()) + 2)
    await gateway.apply(table(routes, [KEY_A, short]))
    assert await status(connection, CONTAINER_A, bearer(short)) == 200

    async def expired() -> bool:
        return await status(connection, CONTAINER_A, bearer(short)) == 401

    await eventually(expired)
    assert await status(connection, CONTAINER_A, A) == 200
    assert await status(connection, CONTAINER_A, bearer(short)) == 401


async def test_another_connection_knows_nothing(connection: RawConnection, place: Place) -> None:
    assert await status(connection, CONTAINER_A, A) == 200
    async with raw_connection(place.port) as other:
        assert await status(other, CONTAINER_A, "") == 401
        assert await status(other, CONTAINER_A, B) == 404
    assert await status(connection, CONTAINER_A, A) == 200


async def test_streams_of_one_http2_connection_at_once(
    container: Container, routes: list[Route], short_folder: Path
) -> None:
    """40 requests are on their way before the first answer is read. HTTP/2 is spoken over TLS alone."""
    write_certificate(short_folder / "certificate.pem", "localhost")
    place = make_place(short_folder, endpoint_certificate=short_folder / "certificate.pem")
    tls = ssl.create_default_context(cafile=str(short_folder / "certificate.pem"))
    tls.set_alpn_protocols(["h2"])
    try:
        gateway = place.dataplane()
        await gateway.start()
        await gateway.apply(table(routes, [KEY_A, KEY_B]))
        reader, writer = await asyncio.open_connection("localhost", place.port, ssl=tls)
        await ask_at_once(RawConnection(reader, writer))
        writer.close()
    finally:
        place.kill()


async def ask_at_once(connection: RawConnection) -> None:
    kinds = [
        (CONTAINER_A, [KEY_A], 200),
        (CONTAINER_A, [KEY_B], 404),
        (CONTAINER_B, [KEY_B], 200),
        (CONTAINER_A, [], 401),
        (CONTAINER_B, [KEY_A], 404),
        (CONTAINER_B, [KEY_B, KEY_B], 401),
        (CONTAINER_A, [KEY_A], 200),
        (CONTAINER_A, [KEY_A, KEY_B], 401),
    ]
    expected = {2 * number + 1: kind for number, kind in enumerate(kinds * 5)}
    frames = [HTTP2_PREFACE + http2_frame(HTTP2_SETTINGS, 0, 0, b"")]
    for stream, (container_id, keys, _) in expected.items():
        authorization = [("authorization", f"Bearer {key.secret}") for key in keys]
        frames.append(http2_request(stream, f"/c/{container_id}/v1", authorization))
    connection.writer.write(b"".join(frames))
    answers: dict[int, int] = {}
    async with asyncio.timeout(15):
        while len(answers) < len(expected):
            head = await connection.reader.readexactly(9)
            payload = await connection.reader.readexactly(int.from_bytes(head[:3], "big"))
            if head[3] == HTTP2_HEADERS:
                answers[int.from_bytes(head[5:], "big")] = http2_status(payload)
    assert answers == {stream: wanted for stream, (_, _, wanted) in expected.items()}


def http2_request(stream: int, path: str, headers: list[tuple[str, str]]) -> bytes:
    pseudo = [(":method", "GET"), (":scheme", "https"), (":authority", "g"), (":path", path)]
    # Literal fields without indexing, neither name nor value compressed: the simplest encoding there is.
    block = b"".join(
        b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in [*pseudo, *headers]
    )
    end_stream_and_headers = 0x05
    return http2_frame(HTTP2_HEADERS, end_stream_and_headers, stream, block)


def http2_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def http2_status(block: bytes) -> int:
    """The status comes first: as an index of the static table, or as three digits after the index of its name."""
    return HTTP2_STATUS_BY_INDEX[block[0]] if block[0] & 0x80 else int(block[2:5])

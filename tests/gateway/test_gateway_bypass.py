"""Requests made up to get past the key check, and raw ones made up to smuggle a second request past it. The container
records all that arrives: nothing may arrive that was not sent with the key."""

import asyncio
import contextlib
import random
from collections import Counter

import pytest
from gateway_support import Container, Place, new_key, raw_connection, table

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route
from moorage.kit import ids

PROJECT, OTHER_PROJECT = ids.new_project_id(), ids.new_project_id()
CONTAINER, OTHER = ids.new_container_id(), ids.new_container_id()
KEY, FOREIGN_KEY = new_key(PROJECT), new_key(OTHER_PROJECT)
EXPIRED = new_key(PROJECT, expires_at_epoch_s=1)
TRIES = 100_000
CONNECTIONS, PIPELINED = 16, 20
NOT_HTTP = 0.005
"""The share that HAProxy's parser refuses, and then closes the connection: what was sent behind it goes unanswered."""
WITHIN_S = 60


@pytest.fixture
async def gateway(place: Place, container: Container) -> DataPlane:
    gateway = place.dataplane()
    await gateway.start()
    routes = [Route(CONTAINER, PROJECT, (container.server(),)), Route(OTHER, OTHER_PROJECT)]
    await gateway.apply(table(routes, [KEY, FOREIGN_KEY, EXPIRED]))
    return gateway


def credentials(generator: random.Random) -> str:
    """Header lines that are not the one right one for CONTAINER."""
    secret, digest = KEY.secret, KEY.entry.key_hash_hex
    nearly = [
        secret[:-1],
        secret + "x",
        secret.upper(),
        secret[::-1],
        digest,
        digest.upper(),
        "",
        "*",
        "%",
        "' OR 1=1",
    ]
    wrong = generator.choice(
        [*nearly, FOREIGN_KEY.secret, EXPIRED.secret, f"moor_{generator.getrandbits(128):x}"]
    )
    scheme = generator.choice(["Bearer", "bearer", "Basic", "Digest", "Bearer,Bearer", "", "Token"])
    name = generator.choice(
        ["Authorization", "authorization", "AUTHORIZATION", "Proxy-Authorization", "X-Api-Key"]
    )
    lines = [
        "",
        f"{name}: {scheme} {wrong}\r\n",
        f"Authorization: Bearer {wrong}, Bearer {secret}\r\n",
        f"Authorization: Bearer {secret}, Bearer {wrong}\r\n",
        f"Authorization: Bearer {secret}\r\nAuthorization: Bearer {wrong}\r\n",
        f"Authorization: Bearer {wrong}\r\nAuthorization: Bearer {secret}\r\n",
        f"Authorization: Bearer {secret}\r\nAuthorization: Bearer {secret}\r\n",
        f"Proxy-Authorization: Bearer {secret}\r\n",
        f"X-Authorization: Bearer {secret}\r\n",
        f"Cookie: Authorization=Bearer {secret}\r\n",
        f"Authorization: Basic {secret}\r\n",
        f"Authorization: Bearer\t{secret}\r\n",
        f"Authorization: Bearer  {secret}\r\n",
    ]
    if generator.random() < NOT_HTTP:
        lines = [f"Authorization: Bearer {secret}\x0b\r\n"]
    forged = [
        "",
        f"X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: {CONTAINER}\r\n",
        f"X-Original-URL: /c/{CONTAINER}/v1\r\nX-Rewrite-URL: /c/{CONTAINER}/v1\r\n",
        "X-Request-ID: admin\r\nX-Moorage-Project: x\r\n",
        f"Forwarded: for=127.0.0.1;host={CONTAINER}\r\n",
    ]
    return generator.choice(lines) + generator.choice(forged)


def target(generator: random.Random) -> str:
    path: str = generator.choice(
        [
            f"/c/{CONTAINER}/v1",
            f"/c/{CONTAINER}",
            f"//c/{CONTAINER}/v1",
            f"/c//{CONTAINER}/v1",
            f"/c%2f{CONTAINER}/v1",
            f"/c/%63tr_{CONTAINER[4:]}/v1",
            f"/c/{OTHER}/../{CONTAINER}/v1",
            f"/c/{OTHER}/%2e%2e/{CONTAINER}/v1",
            f"/./c/{CONTAINER}/v1",
            f"/c/{CONTAINER}/../../etc/passwd",
            f"/c/{CONTAINER};a=b/v1",
            f"/c/{CONTAINER.upper()}/v1",
            f"/c/{CONTAINER}%00/v1",
            f"/C/{CONTAINER}/v1",
            f"/x/c/{CONTAINER}/v1",
            f"/?/c/{CONTAINER}/v1",
        ]
    )
    query = generator.choice(["", f"?api_key={KEY.secret}", f"?Authorization=Bearer%20{KEY.secret}", "?a=b"])
    return path + query


def attempt(generator: random.Random) -> bytes:
    method = generator.choice(
        ["GET", "POST", "OPTIONS", "HEAD", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND"]
    )
    host = generator.choice(["g", CONTAINER, f"{CONTAINER}.g", "127.0.0.1", "localhost"])
    origin = generator.choice(["", f"http://{host}"])
    if generator.random() < NOT_HTTP:
        origin = generator.choice([f"http://{KEY.secret}@g", "https://elsewhere:443", "ftp://g"])
    line = f"{method} {origin}{target(generator)} HTTP/1.1\r\nHost: {host}\r\n"
    return (line + credentials(generator) + "Content-Length: 0\r\n\r\n").encode("latin-1")


def with_the_key(request: bytes) -> bool:
    """Whether it names the container as it should and carries the key as its only authorization: few do by chance."""
    lines = request.decode("latin-1").split("\r\n")
    values = [line.partition(": ")[2] for line in lines if line.lower().startswith("authorization:")]
    return (
        len(values) == 1 and values[0].partition(" ")[2] == KEY.secret and values[0][:6].lower() == "bearer"
    )


@pytest.mark.long
async def test_made_up_credentials_hosts_and_paths_reach_nothing(
    gateway: DataPlane, place: Place, container: Container
) -> None:
    generator = random.Random(15)
    statuses: Counter[int] = Counter()
    left = [TRIES]

    async def one_connection() -> None:
        while left[0] > 0:
            async with raw_connection(place.port) as connection:
                await _attack(connection.reader, connection.writer)

    async def _attack(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Several at a time, until the gateway closes the connection over one that is not HTTP."""
        while left[0] > 0:
            tries = [attempt(generator) for _ in range(PIPELINED)]
            assert not any(with_the_key(one) for one in tries)
            left[0] -= len(tries)
            writer.write(b"".join(tries))
            try:
                for one in tries:
                    statuses[await _status(reader, head_only=one.startswith(b"HEAD"))] += 1
            except (asyncio.IncompleteReadError, ConnectionError):
                return

    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*(one_connection() for _ in range(CONNECTIONS)))
    assert container.seen == []
    async with raw_connection(place.port) as connection:
        ask = f"GET /c/{CONTAINER}/v1 HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {KEY.secret}\r\n\r\n"
        assert (await connection.ask(ask.encode())).status == 200, "the key itself opens"
    answered = sum(statuses.values())
    # 503: the foreign key at its own container, which does not run.
    assert set(statuses) <= {400, 401, 404, 503}, statuses
    assert answered > TRIES / 2, "most were judged by the rules, not by the parser"
    print(f"{TRIES} tries, {answered} answered {dict(statuses)}, {len(container.seen) - 1} arrived")


async def _status(reader: asyncio.StreamReader, *, head_only: bool) -> int:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    if "content-length: " in head and not head_only:
        await reader.readexactly(int(head.split("content-length: ")[1].split("\r\n")[0]))
    status = int(head.split(" ", 2)[1])
    if "connection: close" in head:
        raise ConnectionError("the gateway hangs up")
    return status


HEAD = f"POST /c/{CONTAINER}/v1?case=CASE HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {KEY.secret}\r\n"
HIDDEN = "GET /hidden HTTP/1.1\r\nHost: g\r\nX: "
BODY = f"0\r\n\r\n{HIDDEN}"
SMUGGLING = {
    "length and chunks": f"{HEAD}Content-Length: {len(BODY)}\r\nTransfer-Encoding: chunked\r\n\r\n{BODY}",
    "chunks and length": f"{HEAD}Transfer-Encoding: chunked\r\nContent-Length: {len(BODY)}\r\n\r\n{BODY}",
    "two lengths": f"{HEAD}Content-Length: 0\r\nContent-Length: {len(HIDDEN)}\r\n\r\n{HIDDEN}",
    "two lengths in one": f"{HEAD}Content-Length: 0, {len(HIDDEN)}\r\n\r\n{HIDDEN}",
    "signed length": f"{HEAD}Content-Length: +0\r\n\r\n{HIDDEN}",
    "hexadecimal length": f"{HEAD}Content-Length: 0x0\r\n\r\n{HIDDEN}",
    "length with a space": f"{HEAD}Content-Length : 0\r\n\r\n{HIDDEN}",
    "empty length": f"{HEAD}Content-Length:\r\n\r\n{HIDDEN}",
    "folded header": f"{HEAD}Content-Length: 0\r\n Transfer-Encoding: chunked\r\n\r\n{BODY}",
    "bare line feeds": f"{HEAD}Content-Length: 0\n\n{HIDDEN}",
    "bare carriage return": f"{HEAD}X: y\rTransfer-Encoding: chunked\r\n\r\n{BODY}",
    "NUL in a name": f"{HEAD}Transfer\0-Encoding: chunked\r\n\r\n{BODY}",
    "space before the colon": f"{HEAD}Transfer-Encoding : chunked\r\n\r\n{BODY}",
    "tab before the value": f"{HEAD}Transfer-Encoding:\tchunked\r\nContent-Length: 4\r\n\r\n{BODY}",
    "unknown encoding": f"{HEAD}Transfer-Encoding: xchunked\r\n\r\n{BODY}",
    "two encodings": f"{HEAD}Transfer-Encoding: chunked, identity\r\n\r\n{BODY}",
    "encoding twice": f"{HEAD}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n{BODY}",
    "quoted encoding": f'{HEAD}Transfer-Encoding: "chunked"\r\n\r\n{BODY}',
    "negative chunk": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n-1\r\n{HIDDEN}",
    "chunk size overflow": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n{HIDDEN}",
    "chunk extension with a line feed": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n0;a\nb\r\n\r\n{HIDDEN}",
    "chunk without its end": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n3\r\nabcXX{HIDDEN}",
    "HTTP/1.0 with chunks": f"{HEAD.replace('HTTP/1.1', 'HTTP/1.0')}Transfer-Encoding: chunked\r\n\r\n{BODY}",
    "HTTP/0.9": f"GET /c/{CONTAINER}/hidden\r\n",
    "two hosts": f"{HEAD}Host: other\r\nContent-Length: 0\r\n\r\n{HIDDEN}",
    "request line with two spaces": f"GET  /c/{CONTAINER}/hidden HTTP/1.1\r\nHost: g\r\n\r\n",
    "line feed in the path": f"GET /c/{CONTAINER}/v1\nX: y HTTP/1.1\r\nHost: g\r\n\r\n{HIDDEN}",
    "upgrade with a body": f"{HEAD}Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: {len(HIDDEN)}\r\n\r\n{HIDDEN}",
    "h2c": f"{HEAD}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 0\r\n\r\n{HIDDEN}",
    "hop-by-hop authorization": f"{HEAD}Connection: close, X-Request-ID\r\nContent-Length: 0\r\n\r\n{HIDDEN}",
    "expect": f"{HEAD}Expect: 100-continue\r\nContent-Length: 0\r\n\r\n{HIDDEN}",
    "a second request without a key": f"{HEAD}Content-Length: 0\r\n\r\nGET /c/{CONTAINER}/hidden HTTP/1.1\r\nHost: g\r\n\r\n",
}


@pytest.mark.long
async def test_smuggled_requests_do_not_arrive(
    gateway: DataPlane, place: Place, container: Container
) -> None:
    """At most the request that has the key arrives, once, and never the hidden one: not by itself, and not out of a
    connection that the next client is given."""

    async def send(number: int, request: str) -> None:
        async with raw_connection(place.port) as connection:
            connection.writer.write(request.replace("CASE", str(number)).encode("latin-1"))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2):
                    await connection.reader.read()
        async with raw_connection(place.port) as connection:
            ask = f"GET /c/{CONTAINER}/next HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {KEY.secret}\r\n\r\n"
            assert (await connection.ask(ask.encode())).json["path"] == "/next"

    await asyncio.gather(*(send(number, request) for number, request in enumerate(SMUGGLING.values())))
    paths = Counter(one.raw_path for one in container.seen)
    assert paths.pop("/next") == len(SMUGGLING)
    assert set(paths) <= {f"/v1?case={number}" for number in range(len(SMUGGLING))}
    assert set(paths.values()) == {1}
    extra = len(container.seen) - len(SMUGGLING) - len(paths)
    print(
        f"{len(SMUGGLING)} raw cases, {len(paths)} arrived as the one request that they were, {extra} extra"
    )

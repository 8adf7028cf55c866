"""Endpoints by their own host name, over TLS with a wildcard certificate that changes while it is served."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from gateway_support import Container, Place, make_place, new_key, table
from test_gateway_connections import (
    HTTP2_HEADERS,
    HTTP2_PREFACE,
    HTTP2_SETTINGS,
    http2_frame,
    http2_request,
    http2_status,
)

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route
from moorage.kit import ids
from tests.certificates import write_certificate

DOMAIN = "apps.example.com"
NAMES = f"*.{DOMAIN}"
PROJECT = ids.new_project_id()
CONTAINER, FOREIGN = ids.new_container_id(), ids.new_container_id()
KEY = new_key(PROJECT)
HOST = f"{CONTAINER.replace('_', '-')}.{DOMAIN}"


@pytest.fixture
def place(short_folder: Path) -> Iterator[Place]:
    certificate = short_folder / "wildcard.pem"
    write_certificate(certificate, NAMES)
    place = make_place(short_folder, apps_domain=DOMAIN, endpoint_certificate=certificate)
    yield place
    place.kill()


@pytest.fixture
async def gateway(place: Place, container: Container) -> DataPlane:
    gateway = place.dataplane()
    await gateway.start()
    routes = [Route(CONTAINER, PROJECT, (container.server(),)), Route(FOREIGN, ids.new_project_id())]
    await gateway.apply(table(routes, [KEY]))
    return gateway


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session:
        yield session


@pytest.mark.parametrize(
    ("host", "path", "status", "arrives"),
    [
        (HOST, "/v1?a=b", 200, "/v1?a=b"),
        (HOST, "/", 200, "/"),
        (HOST.upper(), "/v1", 200, "/v1"),
        (f"{HOST}:8443", "/v1", 200, "/v1"),
        # The host has chosen the container; whatever the path names is the container's own affair.
        (HOST, f"/c/{FOREIGN}/v1", 200, f"/c/{FOREIGN}/v1"),
        ("g", f"/c/{CONTAINER}/v1", 200, "/v1"),
        ("g", "/v1", 404, None),
        (f"{FOREIGN.replace('_', '-')}.{DOMAIN}", "/v1", 404, None),
        (f"{FOREIGN.replace('_', '-')}.{DOMAIN}", f"/c/{CONTAINER}/v1", 404, None),
        (f"x.{HOST}", "/v1", 404, None),
        (f"{HOST}.evil.example", "/v1", 404, None),
        (f"{CONTAINER.replace('_', '-')}xapps.example.com", "/v1", 404, None),
        (f"abc-{CONTAINER[4:]}.{DOMAIN}", "/v1", 404, None),
        (f"{CONTAINER}.{DOMAIN}", "/v1", 404, None),
    ],
)
async def test_the_host_names_the_container(
    gateway: DataPlane,
    place: Place,
    client: aiohttp.ClientSession,
    host: str,
    path: str,
    status: int,
    arrives: str | None,
) -> None:
    url = f"https://127.0.0.1:{place.port}{path}"
    async with client.get(url, headers={**KEY.headers, "Host": host}) as response:
        assert response.status == status
        if arrives is not None:
            seen = await response.json()
            assert seen["path"] == arrives
            assert seen["headers"]["X-Forwarded-Proto"] == "https"
    async with client.get(url, headers={"Host": host}) as response:
        assert response.status == 401


@pytest.mark.parametrize(("host", "prefix"), [(HOST, ""), ("g", f"/c/{CONTAINER}")])
async def test_websockets_pass_in_both_forms(
    gateway: DataPlane, place: Place, client: aiohttp.ClientSession, host: str, prefix: str
) -> None:
    url = f"wss://127.0.0.1:{place.port}{prefix}/socket"
    async with client.ws_connect(url, headers={**KEY.headers, "Host": host}) as connection:
        await connection.send_str("hello")
        assert await connection.receive_str() == "echo hello"


async def test_http2(gateway: DataPlane, place: Place, container: Container) -> None:
    async with tls(place, alpn=["h2", "http/1.1"]) as (reader, writer):
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        authorization = [("authorization", f"Bearer {KEY.secret}")]
        requests = [
            http2_request(stream, f"/c/{CONTAINER}/v1?{stream}", authorization) for stream in (1, 3, 5)
        ]
        writer.write(HTTP2_PREFACE + http2_frame(HTTP2_SETTINGS, 0, 0, b"") + b"".join(requests))
        statuses: dict[int, int] = {}
        async with asyncio.timeout(15):
            while len(statuses) < 3:
                head = await reader.readexactly(9)
                payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
                if head[3] == HTTP2_HEADERS:
                    statuses[int.from_bytes(head[5:], "big")] = http2_status(payload)
    assert statuses == {1: 200, 3: 200, 5: 200}
    assert sorted(one.raw_path for one in container.seen) == ["/v1?1", "/v1?3", "/v1?5"]


@pytest.mark.long
async def test_a_new_certificate_is_served_without_a_lost_connection(
    gateway: DataPlane, place: Place, container: Container
) -> None:
    assert place.config.endpoint_certificate is not None
    wanted = table([Route(CONTAINER, PROJECT, (container.server(),))], [KEY])
    await gateway.apply(wanted)
    outcomes: list[bytes] = []
    over = False

    async def ask_again_and_again() -> None:
        while not over:
            async with tls(place) as (reader, writer):
                head = f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nAuthorization: Bearer {KEY.secret}\r\n"
                writer.write(head.encode() + b"\r\n")
                outcomes.append((await reader.read())[9:12])

    asking = [asyncio.create_task(ask_again_and_again()) for _ in range(2)]
    for _ in range(5):
        serial = write_certificate(place.config.endpoint_certificate, NAMES)
        await gateway.apply(wanted)
        assert await served_serial(place) == serial
    # One that is no certificate is not served, and nothing else changes.
    place.config.endpoint_certificate.write_text("nonsense")
    await gateway.apply(wanted)
    assert await served_serial(place) == serial
    # An agent that was not there when the file changed finds out.
    serial = write_certificate(place.config.endpoint_certificate, NAMES)
    successor = place.dataplane()
    await successor.start()
    await successor.apply(wanted)
    assert await served_serial(place) == serial
    over = True
    await asyncio.gather(*asking)
    assert set(outcomes) == {b"200"}, outcomes
    print(f"6 certificates in turn, {len(outcomes)} new TLS connections, 0 lost")


async def served_serial(place: Place) -> int:
    async with tls(place) as (_, writer):
        encoded = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(encoded).serial_number


@contextlib.asynccontextmanager
async def tls(
    place: Place, alpn: list[str] | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(alpn)
    reader, writer = await asyncio.open_connection("127.0.0.1", place.port, ssl=context, server_hostname=HOST)
    try:
        yield reader, writer
    finally:
        writer.close()

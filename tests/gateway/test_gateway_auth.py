"""Who gets through the gateway, and what everybody else is told."""

import itertools
import json
import random
import time

import aiohttp
import pytest
from gateway_support import Container, Place, eventually, new_key, raw_request, table

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route
from moorage.kit import ids

PROJECT = ids.new_project_id()
OTHER_PROJECT = ids.new_project_id()
CONTAINER = ids.new_container_id()
STOPPED = ids.new_container_id()
FOREIGN = ids.new_container_id()
KEY = new_key(PROJECT)
FOREIGN_KEY = new_key(OTHER_PROJECT)
EXPIRED_KEY = new_key(PROJECT, expires_at_epoch_s=int(time.time()) - 5)
LATER_KEY = new_key(PROJECT, expires_at_epoch_s=int(time.time()) + 3600)


@pytest.fixture
async def served(gateway: DataPlane, container: Container) -> Container:
    routes = [
        Route(CONTAINER, PROJECT, (container.server(),)),
        Route(STOPPED, PROJECT),
        Route(FOREIGN, OTHER_PROJECT, (container.server(),)),
    ]
    await gateway.apply(table(routes, [KEY, FOREIGN_KEY, EXPIRED_KEY, LATER_KEY]))
    return container


def error(message: str, error_type: str, code: str, request_id: str) -> dict[str, object]:
    return {"error": {"message": message, "type": error_type, "code": code, "request_id": request_id}}


UNAUTHENTICATED = [
    "",
    "Authorization: Bearer \r\n",
    "Authorization: Bearer wrong\r\n",
    f"Authorization: {KEY.secret}\r\n",
    f"Authorization: Basic {KEY.secret}\r\n",
    f"Authorization: Digest {KEY.secret}\r\n",  # as long as Bearer
    f"Authorization: Bearer{KEY.secret}\r\n",
    f"Authorization: Bearer {KEY.secret}x\r\n",
    f"Authorization: Bearer {KEY.secret},x\r\n",
    f"Authorization: Bearer x,Bearer {KEY.secret}\r\n",
    f"Authorization: Bearer {KEY.secret} x\r\n",
    f"Authorization: Bearer {KEY.secret.upper()}\r\n",
    f"Authorization: Bearer {KEY.entry.key_hash_hex}\r\n",
    f"Authorization: Bearer {KEY.secret}\r\nAuthorization: Bearer {KEY.secret}\r\n",
    f"Authorization: Bearer {KEY.secret}\r\nauthorization: x\r\n",
    f"Authorization: Bearer {EXPIRED_KEY.secret}\r\n",
    f"Proxy-Authorization: Bearer {KEY.secret}\r\n",
    f"X-Api-Key: {KEY.secret}\r\nCookie: authorization=Bearer {KEY.secret}\r\n",
]


@pytest.mark.parametrize("header", UNAUTHENTICATED)
@pytest.mark.parametrize("container_id", [CONTAINER, STOPPED, FOREIGN, "ctr_unknown"])
async def test_every_failed_authentication_looks_the_same(
    served: Container, place: Place, header: str, container_id: str
) -> None:
    answer = await raw_request(
        place.port, f"GET /c/{container_id}/v1/models HTTP/1.1\r\nHost: gateway\r\n{header}\r\n".encode()
    )
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["content-type"] == "application/json"
    message = "Invalid or missing API key. Send it as: Authorization: Bearer <API_KEY>"
    request_id = answer.headers["x-request-id"]
    assert request_id.startswith("req_")
    assert answer.json == error(message, "authentication_error", "authentication_failed", request_id)
    assert served.seen == []


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
@pytest.mark.parametrize("key", [KEY, LATER_KEY])
async def test_valid_key(served: Container, place: Place, scheme: str, key: object) -> None:
    assert key in (KEY, LATER_KEY)
    secret = (KEY if key is KEY else LATER_KEY).secret
    answer = await raw_request(
        place.port,
        f"GET /c/{CONTAINER}/v1 HTTP/1.1\r\nHost: g\r\nAuthorization: {scheme} {secret}\r\n\r\n".encode(),
    )
    assert answer.status == 200
    assert answer.json["path"] == "/v1"


NOT_FOUND_PATHS = [
    f"/c/{FOREIGN}/v1",
    "/c/ctr_aaaaaaaaaaaaaaaaaaaa/v1",
    "/",
    "/c",
    "/c/",
    f"/c/{CONTAINER}x/v1",
    f"/c/{CONTAINER};x/v1",
    f"/c/{CONTAINER[:-1]}/v1",
    f"/c/{CONTAINER.upper()}/v1",
    f"//c/{CONTAINER}/v1",
    f"/c//{CONTAINER}/v1",
    f"/./c/{CONTAINER}/v1",
    f"/C/{CONTAINER}/v1",
    f"/%63/{CONTAINER}/v1",
    f"/c%2f{CONTAINER}/v1",
    f"/c/{CONTAINER}%2fv1",
    f"/c/x/../{CONTAINER}/v1",
    f"/x?/c/{CONTAINER}/v1",
    f"http://g/x/c/{CONTAINER}/v1",
    "*",
]


@pytest.mark.parametrize("path", NOT_FOUND_PATHS)
async def test_foreign_absent_and_malformed_ids_look_the_same(
    served: Container, place: Place, path: str
) -> None:
    method = "OPTIONS" if path == "*" else "GET"
    request = f"{method} {path} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {KEY.secret}\r\n\r\n"
    answer = await raw_request(place.port, request.encode())
    assert answer.status == 404
    expected = error(
        "Invalid container ID or endpoint path",
        "not_found_error",
        "not_found",
        answer.headers["x-request-id"],
    )
    assert answer.json == expected
    assert served.seen == []


async def test_a_container_without_servers(served: Container, client: aiohttp.ClientSession) -> None:
    async with client.get(f"/c/{STOPPED}/v1", headers=KEY.headers) as response:
        assert response.status == 503
        assert response.headers["Retry-After"] == "5"
        assert (await response.json())["error"]["code"] == "container_not_running"


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        (f"/c/{CONTAINER}", "/"),
        (f"/c/{CONTAINER}?a=b", "/?a=b"),
        (f"/c/{CONTAINER}/", "/"),
        (f"/c/{CONTAINER}/?a=/c/x", "/?a=/c/x"),
        (f"/c/{CONTAINER}//a/../b", "//a/../b"),
        (f"/c/{CONTAINER}/a%2Fb%20c?d=%25", "/a%2Fb%20c?d=%25"),
        (f"/c/{CONTAINER}/../{FOREIGN}/v1", f"/../{FOREIGN}/v1"),
        (f"http://g/c/{CONTAINER}/absolute?x=1", "/absolute?x=1"),
    ],
)
async def test_the_path_arrives_as_it_was_sent_less_the_prefix(
    served: Container, place: Place, sent: str, arrives: str
) -> None:
    request = f"GET {sent} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {KEY.secret}\r\n\r\n"
    answer = await raw_request(place.port, request.encode())
    assert (answer.status, answer.json["path"]) == (200, arrives)


async def test_headers_of_the_client_that_are_not_its_to_set(
    served: Container, client: aiohttp.ClientSession
) -> None:
    forged = {
        "Cookie": "session=1",
        "X-Request-ID": "forged",
        "X-Forwarded-For": "6.6.6.6",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "evil",
        "X-Forwarded-Prefix": "/evil",
        "Forwarded": "for=6.6.6.6",
        "X-Real-IP": "6.6.6.6",
        "X-Custom": "kept",
    }
    async with client.get(f"/c/{CONTAINER}/v1", headers={**KEY.headers, **forged}) as response:
        arrived = {name.lower(): value for name, value in (await response.json())["headers"].items()}
        assert arrived["x-request-id"] == response.headers["X-Request-ID"] != "forged"
    assert arrived["x-custom"] == "kept"
    assert arrived["x-forwarded-for"] == "127.0.0.1"
    assert arrived["x-forwarded-proto"] == "http"
    assert arrived["x-forwarded-host"] == arrived["host"]
    absent = {"authorization", "cookie", "forwarded", "x-real-ip", "x-forwarded-prefix"}
    assert not absent & set(arrived)


async def test_no_generated_request_arrives_without_a_key(served: Container, place: Place) -> None:
    """Every combination of odd paths, methods and credentials; none of them may reach the container."""
    paths = [f"/c/{CONTAINER}/v1", f"/c/{CONTAINER}/%2e%2e/x", f"http://g/c/{CONTAINER}/v1", *NOT_FOUND_PATHS]
    methods = ["GET", "POST", "OPTIONS", "HEAD", "BREW"]
    combinations = list(itertools.product(methods, paths, UNAUTHENTICATED))
    chosen = random.Random(1).sample(combinations, 400)
    for method, path, header in chosen:
        request = (
            f"{method} {path} HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: 0\r\n{header}\r\n"
        )
        answer = await raw_request(place.port, request.encode()) if method != "HEAD" else None
        assert answer is None or answer.status in (400, 401), (method, path, header)
    assert served.seen == []


async def test_smuggling_attempts_are_refused(served: Container, place: Place) -> None:
    head = f"POST /c/{CONTAINER}/v1 HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {KEY.secret}\r\n"
    hidden = f"GET /c/{CONTAINER}/hidden HTTP/1.1\r\nHost: g\r\n\r\n"
    for framing in [
        "Content-Length: 3\r\nContent-Length: 30\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Content-Length: -1\r\n",
    ]:
        answer = await raw_request(place.port, f"{head}{framing}\r\n0\r\n\r\n{hidden}".encode())
        assert answer.status == 400, framing
    assert not any("hidden" in request.raw_path for request in served.seen)


async def test_a_key_is_added_revoked_and_expires_at_run_time(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    route = Route(CONTAINER, PROJECT, (container.server(),))
    short = new_key(PROJECT, expires_at_epoch_s=int(time.time()) + 2)

    async def status_with(headers: dict[str, str]) -> int:
        async with client.get(f"/c/{CONTAINER}/v1", headers=headers) as response:
            await response.read()
            return response.status

    await gateway.apply(table([route], []))
    assert await status_with(KEY.headers) == 401
    await gateway.apply(table([route], [KEY, short]))
    assert await status_with(KEY.headers) == 200
    assert await status_with(short.headers) == 200

    async def expired() -> bool:
        return await status_with(short.headers) == 401

    await eventually(expired)
    await gateway.apply(table([route], []))
    assert await status_with(KEY.headers) == 401


async def test_many_keys_are_replaced_in_one_step(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    route = Route(CONTAINER, PROJECT, (container.server(),))
    many = [new_key(PROJECT) for _ in range(2000)]
    await gateway.apply(table([route], many))
    fewer = many[:500]
    await gateway.apply(table([route], fewer))
    for key, status in [(many[0], 200), (many[499], 200), (many[500], 401), (many[1999], 401)]:
        async with client.get(f"/c/{CONTAINER}/v1", headers=key.headers) as response:
            assert response.status == status, json.dumps(await response.json())
    assert (await gateway.apply(table([route], fewer))).changes == 0

"""What happens to a request that got through: streams, queues, failing containers, health checks."""

import asyncio

import aiohttp
import pytest
from gateway_support import Container, Place, eventually, new_key, run_container, table

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route, Server, TrafficLimits
from moorage.kit import ids
from tests.ports import free_port

PROJECT = ids.new_project_id()
CONTAINER, NEIGHBOUR = ids.new_container_id(), ids.new_container_id()
KEY = new_key(PROJECT)


async def serve(
    gateway: DataPlane,
    *servers: Server,
    health_path: str | None = None,
    max_concurrency: int = 100,
    **limits: int,
) -> None:
    route = Route(CONTAINER, PROJECT, servers, health_path, max_concurrency, limits=TrafficLimits(**limits))
    await gateway.apply(table([route], [KEY]))


async def error_of(response: aiohttp.ClientResponse) -> tuple[int, str]:
    error = (await response.json())["error"]
    assert error["request_id"] == response.headers["X-Request-ID"]
    assert error["message"]
    assert error["type"] == "server_error"
    return response.status, error["code"]


def get(client: aiohttp.ClientSession, path: str) -> "aiohttp.client._RequestContextManager":
    return client.get(f"/c/{CONTAINER}{path}", headers=KEY.headers)


async def test_a_streamed_event_does_not_wait_for_the_next(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, container.server())
    async with get(client, "/stream") as response:
        first = await response.content.readuntil(b"\n\n")
        # The container has not sent the second one yet: it still waits for us.
        assert (first, container.waiting) == (b"data: first\n\n", 1)
        container.release.set()
        assert await response.content.read() == b"data: second\n\n"


async def test_the_container_learns_that_its_client_left(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, container.server())
    request = asyncio.create_task(get(client, "/hold").__aenter__())
    await eventually(lambda: container.waiting == 1)
    request.cancel()
    async with asyncio.timeout(1.5):
        await container.left.wait()


async def test_websocket(gateway: DataPlane, container: Container, client: aiohttp.ClientSession) -> None:
    await serve(gateway, container.server())
    async with client.ws_connect(f"/c/{CONTAINER}/socket", headers=KEY.headers) as connection:
        await connection.send_str("hello")
        assert await connection.receive_str() == "echo hello"


async def test_a_large_body_arrives_whole(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, container.server())
    body = b"x" * 3_000_000
    async with client.post(f"/c/{CONTAINER}/v1", headers=KEY.headers, data=body) as response:
        assert response.status == 200
    assert container.bodies == [body]


@pytest.mark.long
async def test_no_replica_accepts_a_connection(gateway: DataPlane, client: aiohttp.ClientSession) -> None:
    await serve(gateway, Server(ids.new_replica_id(), "127.0.0.1", free_port()))
    async with get(client, "/v1") as response:
        assert await error_of(response) == (502, "container_unreachable")


async def test_a_dead_replica_is_stepped_over(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, Server(ids.new_replica_id(), "127.0.0.1", free_port()), container.server())
    statuses = []
    for _ in range(20):
        async with get(client, "/v1") as response:
            statuses.append(response.status)
    assert statuses == [200] * 20


async def test_a_container_that_hangs_up(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, container.server())
    async with get(client, "/close") as response:
        assert await error_of(response) == (502, "container_closed_connection")


@pytest.mark.long
async def test_a_container_that_says_nothing(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, container.server(), request_timeout_s=2)
    async with get(client, "/hold") as response:
        assert await error_of(response) == (504, "container_timeout")


async def test_a_containers_own_error_is_left_alone(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    await serve(gateway, container.server())
    async with get(client, "/unavailable") as response:
        assert (response.status, await response.text()) == (503, "my own 503")
        assert response.headers["X-Request-ID"].startswith("req_")


async def test_the_queue_is_bounded_in_length_and_time(
    gateway: DataPlane, place: Place, container: Container, client: aiohttp.ClientSession
) -> None:
    busy = Route(CONTAINER, PROJECT, (container.server(),), max_concurrency=1)
    neighbour = Route(NEIGHBOUR, PROJECT, (container.server(),))
    await gateway.apply(table([busy, neighbour], [KEY]))

    async def outcome() -> tuple[int, str]:
        async with get(client, "/hold") as response:
            return (200, "ok") if response.status == 200 else await error_of(response)

    async with asyncio.TaskGroup() as group:
        served = group.create_task(outcome())
        await eventually(lambda: container.waiting == 1)
        queued = [group.create_task(outcome()) for _ in range(place.config.queue_limit)]

        async def queue_is_full() -> bool:
            return sum((await gateway.process.worker.load()).slots.values()) == 1 + place.config.queue_limit

        await eventually(queue_is_full)
        assert await outcome() == (503, "queue_full")  # one too many: at once
        async with client.get(f"/c/{NEIGHBOUR}/v1", headers=KEY.headers) as response:
            assert response.status == 200, "the queue is this container's own"
        assert [await task for task in queued] == [(503, "queue_full")] * len(queued)  # too long a wait
        container.release.set()
        assert await served == (200, "ok")


@pytest.mark.long
async def test_a_container_without_a_health_path_is_not_checked(
    gateway: DataPlane, container: Container
) -> None:
    async with run_container() as checked:
        other = Route(ids.new_container_id(), PROJECT, (checked.server(),), "/healthz")
        route = Route(CONTAINER, PROJECT, (container.server(),))
        await gateway.apply(table([route, other], [KEY]))
        await eventually(lambda: len(checked.health_checks) >= 2)
    assert container.health_checks == []


@pytest.mark.parametrize("path", ["/", "/api/v1/me?x=1", "/console/%2e%2e/x"])
async def test_the_management_address_reaches_the_api(gateway: DataPlane, place: Place, path: str) -> None:
    assert place.config.api_socket is not None
    async with (
        run_container(unix_path=place.config.api_socket) as api,
        aiohttp.ClientSession(f"http://127.0.0.1:{place.management_port}") as client,
        client.get(
            path, headers={"X-Forwarded-For": "6.6.6.6", "Cookie": "a=b", "Authorization": "Bearer x"}
        ),
    ):
        (request,) = api.seen
    assert request.headers.getall("X-Forwarded-For") == ["127.0.0.1"]
    assert request.headers["X-Forwarded-Proto"] == "http"
    assert (request.headers["Cookie"], request.headers["Authorization"]) == ("a=b", "Bearer x")


async def test_the_management_address_while_the_api_is_away(gateway: DataPlane, place: Place) -> None:
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{place.management_port}") as client,
        client.get("/api/v1/me") as response,
    ):
        assert response.status == 503
        assert response.headers["Content-Type"] == "application/problem+json"
        assert await response.json(content_type=None) == {
            "type": "about:blank",
            "title": "Service Unavailable",
            "status": 503,
            "code": "unavailable",
            "detail": "The API is not running. Try again in a few seconds.",
            "request_id": response.headers["X-Request-ID"],
        }

"""`/api/v1/…` reaches a server that has its API at `/v1`; of every other container no request is changed."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from gateway_support import Container, Place, make_place, new_key, table
from openai import AsyncOpenAI
from yarl import URL

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route, TrafficLimits
from moorage.kit import ids

DOMAIN = "apps.example.com"
PROJECT = ids.new_project_id()
STOCK, LIMITED, PLAIN = (ids.new_container_id() for _ in range(3))
KEY = new_key(PROJECT)
PATHS = [
    "",
    "/",
    "/api",
    "/api/v1",
    "/api/v1/",
    "/api/v1/chat/completions",
    "/api/v1/models?a=/api/v1/b",
    "/api/v1//x",
    "/api/v1/../x",
    "/api/v1x",
    "/api/v10/x",
    "/api//v1/x",
    "/API/v1/x",
    "/%61pi/v1/x",
    "/api%2fv1/x",
    "/api/v1%2fx",
    "/v1/chat/completions",
    "/v1/api/v1/x",
    "/x/api/v1/y",
    "/api/v2/x",
    "/health",
    "/api/v1/x;y=1?q=1&r=%20",
]


@pytest.fixture
def place(short_folder: Path) -> Iterator[Place]:
    place = make_place(short_folder, apps_domain=DOMAIN)
    yield place
    place.kill()


@pytest.fixture
async def gateway(place: Place, container: Container) -> DataPlane:
    gateway = place.dataplane()
    await gateway.start()
    routes = [
        Route(STOCK, PROJECT, (container.server(),), serves_v1=True),
        Route(
            LIMITED, PROJECT, (container.server(),), limits=TrafficLimits(request_timeout_s=9), serves_v1=True
        ),
        Route(PLAIN, PROJECT, (container.server(),)),
    ]
    await gateway.apply(table(routes, [KEY]))
    return gateway


async def seen(
    place: Place, client: aiohttp.ClientSession, container_id: str, path: str, *, host: bool
) -> str:
    base = f"http://127.0.0.1:{place.port}" + ("" if host else f"/c/{container_id}")
    headers = {**KEY.headers} | ({"Host": f"{container_id.replace('_', '-')}.{DOMAIN}"} if host else {})
    async with client.post(URL(base + path, encoded=True), headers=headers, data=b"x") as answer:
        assert answer.status == 200, await answer.text()
        return str((await answer.json())["path"])


async def test_only_the_promised_path_of_a_container_that_serves_v1_is_changed(
    place: Place, gateway: DataPlane
) -> None:
    changed = {"plain": 0, "stock": 0}
    async with aiohttp.ClientSession() as client:
        for path, host in itertools.product(PATHS, (False, True)):
            untouched = path or "/"
            changed["plain"] += await seen(place, client, PLAIN, path, host=host) != untouched
            for container_id in (STOCK, LIMITED):
                expected = untouched.removeprefix("/api") if path.startswith("/api/v1/") else untouched
                arrived = await seen(place, client, container_id, path, host=host)
                assert arrived == expected, path
                changed["stock"] += arrived != untouched
    print(f"\n{len(PATHS) * 2} requests to a container without the setting: {changed['plain']} changed")
    assert changed["plain"] == 0
    assert changed["stock"] > 0


async def test_the_setting_comes_and_goes_and_survives_a_restart_of_the_agent(
    place: Place, gateway: DataPlane, container: Container
) -> None:
    plain = Route(PLAIN, PROJECT, (container.server(),))
    async with aiohttp.ClientSession() as client:
        for serves_v1, expected in ((True, "/v1/x"), (False, "/api/v1/x"), (True, "/v1/x")):
            await gateway.apply(table([replace(plain, serves_v1=serves_v1)], [KEY]))
            assert await seen(place, client, PLAIN, "/api/v1/x", host=False) == expected
        again = place.dataplane()
        await again.start()
        applied = await again.apply(table([replace(plain, serves_v1=True)], [KEY]))
        assert applied.changes == 0, "it read back what HAProxy holds"
        assert await seen(place, client, PLAIN, "/api/v1/x", host=False) == "/v1/x"
        await gateway.apply(table([Route(PLAIN, PROJECT, serves_v1=True)], [KEY]))
        async with client.get(
            f"http://127.0.0.1:{place.port}/c/{PLAIN}/api/v1/x", headers=KEY.headers
        ) as stopped:
            assert stopped.status == 503


async def test_openais_own_client_at_the_promised_address(
    place: Place, gateway: DataPlane, container: Container
) -> None:
    client = AsyncOpenAI(base_url=f"http://127.0.0.1:{place.port}/c/{STOCK}/api/v1", api_key=KEY.secret)
    async with client:
        answer = await client.with_raw_response.models.list()
    assert answer.http_response.json()["path"] == "/v1/models"
    assert container.seen[-1].raw_path == "/v1/models"

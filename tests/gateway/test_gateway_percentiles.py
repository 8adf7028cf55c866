"""Response times as the metrics show them against those that the clients measured, and counts against what they sent."""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from gateway_support import eventually, make_place, table
from test_gateway_requests import new_reader, running, with_id

from moorage.gateway.table import Route, Server
from moorage.kit import ids
from tests.database.api_support import Api, Asker, bearer
from tests.database.api_support import api_fixture as api_fixture
from tests.gateway.gateway_support import new_key

REQUESTS = 240
WITHIN = 0.05
STATUSES = (*[200] * 20, 404, 500, 302)


@pytest.fixture
async def delaying() -> AsyncIterator[TestServer]:
    """Answers after so many milliseconds, with that status."""

    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(int(request.match_info["ms"]) / 1000)
        return web.Response(status=int(request.match_info["status"]))

    application = web.Application()
    application.router.add_get("/{ms}/{status}", answer)
    async with TestServer(application, host="127.0.0.1") as server:
        yield server


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[math.ceil(share * len(values)) - 1]


@pytest.mark.long
async def test_percentiles_and_counts(api: Api, delaying: TestServer, short_folder: Path) -> None:
    user_id, _ = await api.new_person("ada@example.com")
    project_id = await api.new_project(
        await api.new_organization("acme", {user_id: "admin"}), "main", user_id
    )
    container_id = ids.ContainerId(await api.new_container(project_id, "chat"))
    key = with_id(new_key(ids.ProjectId(project_id)))
    (short_folder / "run").mkdir(mode=0o755)
    place = make_place(
        short_folder, request_log_socket=short_folder / "run/requests.sock", server_idle_timeout_s=30
    )
    gateway = place.dataplane()
    # Seconds, so that whatever else the machine does is small beside them; few are long, as with real models.
    random_order = random.Random(4711)
    delays_ms = [1000 + round(3000 * (number / REQUESTS) ** 2) for number in range(REQUESTS)]
    random_order.shuffle(delays_ms)
    statuses = [STATUSES[number % len(STATUSES)] for number in range(REQUESTS)]
    took_ms: list[float] = []
    try:
        await gateway.start()
        replicas = (ids.new_replica_id() for _ in range(4))
        servers = tuple(Server(replica, "127.0.0.1", delaying.port or 0, False) for replica in replicas)
        await gateway.apply(table([Route(container_id, ids.ProjectId(project_id), servers)], [key]))
        connector = aiohttp.TCPConnector(limit=0)
        base = f"http://127.0.0.1:{place.port}"
        async with (
            running(new_reader(place, api.database)),
            aiohttp.ClientSession(base, connector=connector, headers=key.headers) as client,
        ):

            async def ask(number: int) -> None:
                await asyncio.sleep(number * 0.01)
                path = f"/c/{container_id}/{delays_ms[number]}/{statuses[number]}"
                began_s = time.perf_counter()
                async with client.get(path, allow_redirects=False) as response:
                    await response.read()
                took_ms.append((time.perf_counter() - began_s) * 1000)
                assert response.status == statuses[number]

            await asyncio.gather(*map(ask, range(REQUESTS)))
            _, managing = await api.new_key(project_id, "manage")
            shown = await settled(api, bearer("manage key", managing), container_id)
    finally:
        place.kill()
    counts = Counter(f"responses_{status // 100}xx" for status in statuses)
    assert {name: shown[name] for name in counts} == counts, "every request is counted, once"
    assert shown["responses_none"] == 0
    report = []
    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        measured, told = percentile(took_ms, share), shown[f"response_time_{name}_ms"]
        assert told == pytest.approx(measured, rel=WITHIN)
        report.append(f"{name} {told:.0f} ms, at the clients {measured:.0f} ms ({told / measured - 1:+.1%})")
    print(f"{REQUESTS} requests counted, 0 missing; {'; '.join(report)}")


async def settled(api: Api, asker: Asker, container_id: str) -> dict[str, float]:
    """The figures of the day, once all requests are in."""
    found: dict[str, float] = {}
    now = datetime.now(UTC)
    query = {"from": (now - timedelta(hours=1)).isoformat(), "to": (now + timedelta(minutes=1)).isoformat()}

    async def all_are_in() -> bool:
        answer = await api.get(asker, f"/containers/{container_id}/metrics", params={**query, "step": 86_400})
        assert answer.status_code == 200, answer.text
        series = answer.json()["series"]
        found.update({name: values[-1] for name, values in series.items()})
        return sum(value for name, value in found.items() if name.startswith("responses_")) >= REQUESTS

    await eventually(all_are_in)
    return found

"""No input of allowed size makes the API's loop compute for more than 50 ms at a stretch."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest
from api_support import ANONYMOUS, SAFE_METHODS, Api, Home, container_body, new_home, route_table
from api_support import api_fixture as api_fixture
from served_api import ServedApi, served_api
from test_api_access import absent_ids

from moorage.entrypoints.bodies import BodyMiddleware
from moorage.kit.json_bounds import MOST_LEVELS, MOST_VALUES
from moorage.kit.web import BodyBounds
from moorage.machines.repository import MOST_STATE_CHANGES
from moorage.telemetry.partition_repository import create_partition

JSON = {"Content-Type": "application/json"}
TIMES = 3


@pytest.fixture(name="served")
async def served_fixture(api: Api, database_dsn: str) -> AsyncIterator[ServedApi]:
    async with served_api(api.settings, database_dsn) as served:
        yield served


class Hostile:
    """Sends, and says what stalled the loop."""

    def __init__(self, served: ServedApi, home: Home) -> None:
        self._served = served
        self._home = home
        self.stalls: list[str] = []
        self.statuses: set[int] = set()
        self._client = httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=240)

    async def warm_up(self) -> None:
        """What is derived from the routes is derived at the first request."""
        for asker in (ANONYMOUS, self._home.admin):
            await self._client.post("/api/v1/organizations", json={}, headers=asker.headers)
            await self._client.get("/api/v1/me", headers=asker.headers)
        await self._served.stalls()

    async def send(self, method: str, path: str, **how: Any) -> httpx.Response:
        headers = {**self._home.admin.headers, **how.pop("headers", {})}
        answer = await self._client.request(method, path, headers=headers, **how)
        self.statuses.add(answer.status_code)
        return answer

    async def check(self, what: str, do: Callable[[], Awaitable[None]]) -> None:
        """What an input costs, it costs each time; what others take from this machine, now and then."""
        for _ in range(TIMES):
            await do()
            found = await self._served.stalls()
            if not found.count:
                return
        self.stalls.append(f"{what}: {found.longest_s * 1000:.0f} ms in {found.where or 'C code'}")

    async def succeed(self, method: str, path: str, **how: Any) -> None:
        answer = await self.send(method, path, **how)
        assert answer.status_code == 200, answer.text

    async def close(self) -> None:
        await self._client.aclose()


def hostile_bodies(most_bytes: int) -> dict[str, bytes]:
    many = MOST_VALUES - 10
    room = most_bytes - 100
    documents: dict[str, Any] = {
        "wrong names": {f"n{number:04}": 1 for number in range(many)},
        "wrong variables": {"env": {f"n{number:04}": 1 for number in range(many)}, "name": []},
        "wrong lists": {"events": [[]] * (many // 2), "project_ids": [1] * (many // 2)},
        "one long name": {"n" * room: 1},
        "one long value": {"name": "v" * room},
        "long variables": container_body(env={f"n{number:04}": "v" * (room // 210) for number in range(200)}),
        "escapes": {"name": "\u2603" * (room // 6)},
    }
    bodies = {name: json.dumps(document).encode()[:most_bytes] for name, document in documents.items()}
    bodies["deep"] = b'{"env":' * MOST_LEVELS + b"1" + b"}" * MOST_LEVELS
    bodies["quotes"] = b'"' * most_bytes
    bodies["backslashes"] = b'"' + b"\\" * (most_bytes - 1)
    bodies["blanks"] = b" " * most_bytes
    return bodies


async def send_all(hostile: Hostile, method: str, path: str, most_bytes: int) -> None:
    for body in hostile_bodies(most_bytes).values():
        await hostile.send(method, path, content=body, headers=JSON)


async def check_bodies(api: Api, served: ServedApi, *, only_declared: bool) -> None:
    home = await new_home(api)
    container_id = await api.new_container(home.project_id, "chat")
    ids = absent_ids() | {
        "organization_id": home.organization_id,
        "project_id": home.project_id,
        "container_id": container_id,
    }
    bounds = BodyMiddleware(api.app, api.app.routes, send_within_s=1)
    hostile = Hostile(served, home)
    await hostile.warm_up()
    for method, path in route_table(api.app):
        bound = bounds._bounds_of(method, path.format(**ids))
        if method in SAFE_METHODS or "logout" in path or (only_declared and bound == BodyBounds()):
            continue
        await hostile.check(
            f"{method} {path}", partial(send_all, hostile, method, path.format(**ids), bound.most_bytes)
        )
    await hostile.close()
    assert hostile.stalls == []
    assert max(hostile.statuses) < 500


@pytest.mark.long
async def test_bodies_where_a_route_has_a_limit_of_its_own(api: Api, served: ServedApi) -> None:
    await check_bodies(api, served, only_declared=True)


@pytest.mark.long
async def test_bodies_at_every_route(api: Api, served: ServedApi) -> None:
    await check_bodies(api, served, only_declared=False)


async def fill(api: Api, home: Home) -> str:
    """A container with as much to read as one can have: what a page, a file or a chart of it is made of."""
    container_id = await api.new_container(home.project_id, "chat")
    replica_id = await api.new_replica(container_id)
    async with api.database.transaction() as session:
        for table in ("log_lines", "request_histograms"):
            await create_partition(session, table, datetime.now(UTC).date())
    await api.execute(
        "INSERT INTO log_lines (replica_id, sequence, written_at, container_id, project_id, time, stream, text) "
        "SELECT :replica, n, now(), :container, :project, now() - interval '1 second' * n, 1, repeat('x', 16000) "
        "FROM generate_series(0, 1199) AS n",
        replica=replica_id,
        container=container_id,
        project=home.project_id,
    )
    for step_s, count in ((10, 8_640), (60, 43_200)):
        await api.execute(
            "INSERT INTO container_steps (step_s, at, container_id, in_flight_mean, in_flight_max, queued_mean, "
            "requests, errors, response_ms) SELECT CAST(:step AS int), date_bin('1 minute', now(), '2000-01-01') - "
            "make_interval(secs => CAST(:step AS int) * n), :container, n % 7, 9, 1, 5, 0, 3 FROM generate_series(1, :count) AS n",
            step=step_s,
            count=count,
            container=container_id,
        )
    await api.execute(
        "INSERT INTO request_histograms (container_id, time, gateway_id, written_at, statuses, buckets, counts) "
        "SELECT :container, date_bin('10 seconds', now(), '2000-01-01') - interval '10 seconds' * n, 'gtw_1', now(), "
        "'{0,0,5,0,0,0}', (SELECT array_agg(b) FROM generate_series(1, 340) AS b), array_fill(1::bigint, '{340}') "
        "FROM generate_series(1, 8640) AS n",
        container=container_id,
    )
    # Of three months, one as soon as the last is over.
    await api.execute(
        "INSERT INTO container_sleeps (container_id, asleep_at, woken_at, woken_by, replicas, price_per_hour_microusd) "
        "SELECT :container, at, at + interval '60 seconds', 'usr_1', 1, 10000 "
        "FROM generate_series(now() - interval '89 days', now(), interval '100 seconds') AS at",
        container=container_id,
    )
    for number in range(50):
        old = await api.new_replica(container_id, "removed", node=f"node-{number}")
        await api.execute(
            "INSERT INTO replica_usage (step_s, at, replica_id, container_id, figures) SELECT 1, "
            "date_bin('10 seconds', now(), '2000-01-01') - interval '10 seconds' * n, :id, :container, "
            "jsonb_build_object('cpu_millis', CAST(:values AS jsonb), 'memory_bytes', CAST(:values AS jsonb)) "
            "FROM generate_series(1, 90) AS n",
            id=old,
            container=container_id,
            values=json.dumps([float(value) for value in range(10)]),
        )
    return container_id


@pytest.mark.long
async def test_answers_of_the_largest_size(api: Api, served: ServedApi) -> None:
    home = await new_home(api)
    container_id = await fill(api, home)
    await api.execute("UPDATE containers SET created_at = now() - interval '8 days'")
    hostile = Hostile(served, home)
    await hostile.warm_up()
    now = datetime.now(UTC)
    metrics, logs = f"/api/v1/containers/{container_id}/metrics", f"/api/v1/containers/{container_id}/logs"
    for days in (0.01, 0.9, 6.9, 29.9):
        since = (now - timedelta(days=days)).isoformat()
        await hostile.check(
            f"metrics of {days} days", partial(hostile.succeed, "GET", metrics, params={"from": since})
        )
    assert len((await hostile.send("GET", metrics)).json()["replicas"]) == 50
    savings = f"/api/v1/containers/{container_id}/savings"
    for path in (savings, f"{logs}?limit=1000", f"{logs}/download", f"{logs}/histogram"):
        await hostile.check(path, partial(hostile.succeed, "GET", path))
    week = (now - timedelta(days=6.9)).isoformat()
    replay = f"/api/v1/containers/{container_id}/autoscaling/replay"
    asked = {"since": week, "scale_down_delay_s": 86_400}
    await hostile.check("a replay of a week", partial(hostile.succeed, "POST", replay, json=asked))
    await hostile.close()
    assert hostile.stalls == []


@pytest.mark.long
async def test_machines_that_come_and_go_all_day(api: Api, served: ServedApi) -> None:
    """As many as an organization may lend, each with as long a history as it may have."""
    home = await new_home(api)
    for _ in range(100):
        lent = {"infrastructure": "community", "owner_organization_id": home.organization_id}
        await api.new_machine("probation", standing="probation", **lent)
    await api.execute(
        "INSERT INTO machine_state_changes (machine_id, at, state) SELECT id, now() - interval '29 days' + n * interval '3 hours', "
        "CASE WHEN n % 2 = 0 THEN 'paused' ELSE 'probation' END FROM machines, generate_series(1, :most) AS n",
        most=MOST_STATE_CHANGES,
    )
    hostile = Hostile(served, home)
    await hostile.warm_up()
    path = f"/api/v1/organizations/{home.organization_id}/machines?limit=200"
    assert len((await hostile.send("GET", path)).json()["items"]) == 100
    await hostile.check("machines", partial(hostile.succeed, "GET", path))
    await hostile.close()
    assert hostile.stalls == []


@pytest.mark.long
async def test_a_long_page_of_logs_goes_on_at_its_cursor(api: Api) -> None:
    home = await new_home(api)
    container_id = await fill(api, home)
    path, seen = f"/containers/{container_id}/logs?limit=1000&to=2100-01-01T00:00:00Z", 0
    cursor: str | None = ""
    while cursor is not None:
        page = (await api.get(home.admin, path + (f"&cursor={cursor}" if cursor else ""))).json()
        seen += len(page["items"])
        cursor = page["next_cursor"]
    assert seen == 1200

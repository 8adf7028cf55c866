"""Logs over HTTP, from a real server: a list, and a stream that stays open."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from log_support import KEYRING, World, eventually, new_world
from sqlalchemy import text
from test_logs_reading import new_source, store

from moorage.entrypoints.api import create_app
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.identity.tokens import API_KEY_PREFIX, new_token
from moorage.kit.crypto import sha256
from moorage.kit.database import Database
from moorage.kit.ids import new_api_key_id, new_project_id
from moorage.kit.settings import Settings
from moorage.organizations import lasting_access
from moorage.organizations.models import ProjectRow
from moorage.telemetry.logs.copying import Source
from moorage.telemetry.logs.reading import download
from moorage.telemetry.logs.reading import repository as reading

SUFFIXES = ["", "/histogram", "/download", "/stream"]


@dataclass
class Site:
    world: World
    source: Source
    client: httpx.AsyncClient

    @property
    def path(self) -> str:
        return f"/api/v1/containers/{self.source.container_id}/logs"

    async def get(self, **query: Any) -> httpx.Response:
        return await self.client.get(self.path, params=query)


async def new_key(world: World, project_id: str) -> str:
    key = new_token(API_KEY_PREFIX)
    async with world.database.transaction() as session:
        row = ApiKeyRow(
            id=new_api_key_id(),
            project_id=project_id,
            name="test",
            scope="manage",
            key_hash=sha256(key),
            hint="test",
        )
        session.add(row)
    return key


@pytest.fixture
async def site(database: Database, database_dsn: str, short_folder: Path) -> AsyncIterator[Site]:
    world = await new_world(database)
    source = await new_source(world, await world.new_container())
    socket = str(short_folder / "api.sock")
    app = create_app(Settings(home=short_folder), Database(database_dsn, pool_size=5), KEYRING)
    server = uvicorn.Server(
        uvicorn.Config(app, uds=socket, log_config=None, timeout_graceful_shutdown=1, lifespan="on")
    )
    serving = asyncio.create_task(server.serve())

    async def started() -> bool:
        return server.started

    await eventually(started, "the server listens")
    transport = httpx.AsyncHTTPTransport(uds=socket)
    headers = {"Authorization": f"Bearer {await new_key(world, world.project_id)}"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://moorage", headers=headers, timeout=30
    ) as client:
        yield Site(world, source, client)
    server.should_exit = True
    await serving


async def test_list(site: Site) -> None:
    await store(site.world, site.source, *((number, f"line {number}") for number in range(250)))
    first = (await site.get()).json()
    assert [item["text"] for item in first["items"]] == [f"line {number}" for number in range(249, 49, -1)]
    assert first["items"][0] == {
        "time": "2026-05-01T00:04:09Z",
        "container_id": site.source.container_id,
        "instance_id": site.source.replica_id,
        "stream": "stdout",
        "sequence": 249,
        "text": "line 249",
    }
    second = (await site.get(cursor=first["next_cursor"])).json()
    assert [item["sequence"] for item in second["items"]] == list(range(49, -1, -1))
    assert second["next_cursor"] is None


async def test_filters(site: Site) -> None:
    await store(site.world, site.source, *((number, f"line {number}") for number in range(20)))
    found = await site.get(
        **{"from": "2026-05-01T02:00:10+02:00", "to": "2026-05-01T00:00:19Z"},
        text="LINE 1",
        instance=site.source.replica_id,
        stream="stdout",
        limit=3,
    )
    assert [item["sequence"] for item in found.json()["items"]] == [18, 17, 16]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 1001},
        {"cursor": "nonsense"},
        {"cursor": "WyIyMDI2LTA1LTAxVDAwOjAwOjAwKzAwOjAwIiwgIngiXQ=="},
        {"from": "yesterday"},
        {"from": "2026-05-01T00:00:00"},
        {"from": "0001-01-01T00:00:00+14:00"},
        {"stream": "stdin"},
        {"instance": "rep_x"},
        {"text": "nul\x00"},
        {"text": "x" * 201},
    ],
)
async def test_bad_input(site: Site, query: dict[str, Any]) -> None:
    answer = await site.get(**query)
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "invalid_input"


@pytest.mark.parametrize("suffix", SUFFIXES)
async def test_other_project(site: Site, suffix: str) -> None:
    other_project_id = new_project_id()
    async with site.world.database.transaction() as session:
        project = await session.get(ProjectRow, site.world.project_id)
        assert project is not None
        session.add(ProjectRow(id=other_project_id, organization_id=project.organization_id, name="other"))
    key = await new_key(site.world, other_project_id)
    answer = await site.client.get(site.path + suffix, headers={"Authorization": f"Bearer {key}"})
    absent = await site.client.get(f"/api/v1/containers/ctr_none/logs{suffix}")
    assert (answer.status_code, answer.json()["detail"]) == (404, absent.json()["detail"])


@pytest.mark.parametrize("suffix", SUFFIXES)
async def test_anonymous(site: Site, suffix: str) -> None:
    answer = await site.client.get(site.path + suffix, headers={"Authorization": "Bearer moor_wrong"})
    assert answer.status_code == 401


@contextlib.asynccontextmanager
async def events(
    site: Site, headers: dict[str, str] | None = None, path: str | None = None, **query: Any
) -> AsyncIterator[AsyncIterator[tuple[str, Any]]]:
    url = f"{path or site.path}/stream"
    async with site.client.stream("GET", url, params=query, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")

        async def parsed() -> AsyncIterator[tuple[str, Any]]:
            last_id = ""
            async for line in answer.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "id":
                    last_id = value
                elif field == "data":
                    yield last_id, json.loads(value)

        yield parsed()


async def test_stream_and_resume(site: Site) -> None:
    await store(site.world, site.source, (0, "old"), (1, "newest"))
    async with asyncio.timeout(20):
        async with events(site, tail=1) as stream:
            assert (await anext(stream))[1]["text"] == "newest"
            await store(site.world, site.source, (2, "one"), (3, "two"), (4, "three"))
            last_id, item = await anext(stream)
            assert item["text"] == "one"
            assert item["instance_id"] == site.source.replica_id
        async with events(site, {"Last-Event-ID": last_id}) as stream:
            assert [(await anext(stream))[1]["text"] for _ in range(2)] == ["two", "three"]
            await store(site.world, site.source, (5, "four"))
            assert (await anext(stream))[1]["text"] == "four"


async def test_many_streams_leave_room_for_others(site: Site) -> None:
    """An open stream holds no connection to the database: more streams than the pool has connections."""
    async with asyncio.timeout(40), contextlib.AsyncExitStack() as stack:
        streams = []
        headers = {"Authorization": f"Bearer {await new_key(site.world, site.world.project_id)}"}
        for _ in range(Settings().streams_per_person):
            streams.append(await stack.enter_async_context(events(site, headers)))
        assert (await site.get()).status_code == 200
        await store(site.world, site.source, (0, "to all"))
        received = await asyncio.gather(*(anext(stream) for stream in streams))
        assert {item["text"] for _, item in received} == {"to all"}


async def test_bad_last_event_id(site: Site) -> None:
    answer = await site.client.get(f"{site.path}/stream", headers={"Last-Event-ID": "nonsense"})
    assert answer.status_code == 422


async def test_project_logs(site: Site) -> None:
    other = await new_source(site.world, await site.world.new_container())
    await store(site.world, site.source, (0, "first"), (2, "third"))
    await store(site.world, other, (1, "second"), (3, "fourth"))
    path = f"/api/v1/projects/{site.world.project_id}/logs"
    async with asyncio.timeout(20):
        items = (await site.client.get(path)).json()["items"]
        assert [item["text"] for item in items] == ["fourth", "third", "second", "first"]
        only = (await site.client.get(path, params={"container": other.container_id})).json()["items"]
        assert [item["text"] for item in only] == ["fourth", "second"]
        async with events(site, path=path, tail=2) as stream:
            assert [(await anext(stream))[1]["text"] for _ in range(2)] == ["third", "fourth"]


async def test_histogram(site: Site) -> None:
    await store(site.world, site.source, (0, "a"), (59, "b"), (60, "c"), (119, "not this one"))
    answer = await site.client.get(
        f"{site.path}/histogram",
        params={"from": "2026-05-01T00:00:00Z", "to": "2026-05-01T00:10:00Z", "steps": 10, "text": ""},
    )
    body = answer.json()
    assert body["step_s"] == 60
    assert body["times"][:2] == ["2026-05-01T00:00:00Z", "2026-05-01T00:01:00Z"]
    assert body["series"] == {"stdout": [2, 2, *[0] * 8], "stderr": [0] * 10, "moorage": [0] * 10}
    narrowed = {"from": "2026-05-01T00:00:00Z", "to": "2026-05-01T00:01:59Z", "steps": 2, "text": "C"}
    found = await site.client.get(f"{site.path}/histogram", params=narrowed)
    assert found.json()["series"]["stdout"] == [0, 1]
    lately = (await site.client.get(f"{site.path}/histogram")).json()
    assert (lately["step_s"], sum(lately["series"]["stdout"])) == (120, 0)
    backwards = {"from": "2026-05-02T00:00:00Z", "to": "2026-05-01T00:00:00Z"}
    assert (await site.client.get(f"{site.path}/histogram", params=backwards)).status_code == 422


async def test_download(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "PAGE_LINES", 100)
    await store(site.world, site.source, *((number, f"line {number}") for number in range(250)))
    answer = await site.client.get(f"{site.path}/download")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="{site.source.container_id}.log"'
    lines = answer.text.splitlines()
    assert lines[0] == (
        f"2026-05-01T00:00:00+00:00 {site.source.container_id} {site.source.replica_id} stdout line 0"
    )
    assert [line.split(" ", 4)[4] for line in lines] == [f"line {number}" for number in range(250)]
    narrowed = await site.client.get(f"{site.path}/download", params={"text": "line 24", "stream": "stdout"})
    assert len(narrowed.text.splitlines()) == 11
    monkeypatch.setattr(download, "MAX_LINES", 200)
    cut = (await site.client.get(f"{site.path}/download")).text.splitlines()
    assert len(cut) == 201
    assert cut[-1] == "[cut after 200 lines; continue with from=2026-05-01T00:03:19+00:00]"


async def test_a_search_over_http_that_takes_too_long(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await store(site.world, site.source, *((number, "x" * 500) for number in range(5000)))
    monkeypatch.setattr(reading, "SEARCH_TIMEOUT_S", 0.001)
    for suffix in ("", "/histogram", "/download"):
        query = {"text": "not there", "from": "2026-05-01T00:00:00Z", "to": "2026-05-02T00:00:00Z"}
        answer = await site.client.get(site.path + suffix, params=query)
        assert (answer.status_code, answer.json()["code"]) == (422, "log_search_too_broad")


@pytest.mark.parametrize("how", ["key revoked", "container deleted"])
@pytest.mark.long
async def test_a_stream_ends_with_the_right_to_it(
    site: Site, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting_access, "ASK_AGAIN_EVERY_S", 0.2)
    statements = {
        "key revoked": "UPDATE api_keys SET revoked_at = now()",
        "container deleted": "UPDATE containers SET deleted_at = now()",
    }
    async with asyncio.timeout(20), events(site) as stream:
        await store(site.world, site.source, (0, "still ours"))
        assert (await anext(stream))[1]["text"] == "still ours"
        async with site.world.database.transaction() as session:
            await session.execute(text(statements[how]))
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    assert (await site.get()).status_code == (401 if how == "key revoked" else 404)

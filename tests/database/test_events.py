"""What a project's watchers hear: changes of its containers and nobody else's, for as long as they may."""

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
from test_logs_endpoints import new_key

from moorage.containers.events import endpoints
from moorage.containers.events.watching import MOST_NAMED, Watch
from moorage.entrypoints.api import create_app
from moorage.kit.database import Database
from moorage.kit.ids import new_project_id
from moorage.kit.settings import Settings
from moorage.organizations import lasting_access
from moorage.organizations.models import ProjectRow


@dataclass
class Site:
    world: World
    client: httpx.AsyncClient

    @property
    def path(self) -> str:
        return f"/api/v1/projects/{self.world.project_id}/events"

    async def execute(self, statement: str, **values: Any) -> None:
        async with self.world.database.transaction() as session:
            await session.execute(text(statement), values)


@pytest.fixture
async def site(database: Database, database_dsn: str, short_folder: Path) -> AsyncIterator[Site]:
    world = await new_world(database)
    socket = str(short_folder / "api.sock")
    app = create_app(Settings(home=short_folder), Database(database_dsn, pool_size=5), KEYRING)
    server = uvicorn.Server(
        uvicorn.Config(app, uds=socket, log_config=None, timeout_graceful_shutdown=1, lifespan="on")
    )
    serving = asyncio.create_task(server.serve())

    async def started() -> bool:
        return server.started

    await eventually(started, "the server listens")
    headers = {"Authorization": f"Bearer {await new_key(world, world.project_id)}"}
    transport = httpx.AsyncHTTPTransport(uds=socket)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://moorage", headers=headers, timeout=30
    ) as client:
        yield Site(world, client)
    server.should_exit = True
    await serving


@contextlib.asynccontextmanager
async def events(site: Site) -> AsyncIterator[AsyncIterator[list[str]]]:
    """The notices of a stream that is being listened to."""
    async with site.client.stream("GET", site.path) as answer:
        assert answer.status_code == 200, await answer.aread()
        lines = answer.aiter_lines()
        assert (await anext(lines)).startswith(":")

        async def notices() -> AsyncIterator[list[str]]:
            async for line in lines:
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))["containers"]

        yield notices()


async def is_listened_to(site: Site, stream: AsyncIterator[list[str]], container_id: str) -> None:
    """Until a notice names it. "Anything may have changed" may come before, when the connection is new, and not after."""
    await site.execute("UPDATE containers SET message = 'listened to' WHERE id = :id", id=container_id)
    async for notice in stream:
        if notice == [container_id]:
            return
        assert notice == []
    raise AssertionError("the stream ended")


async def test_a_change_is_told_to_its_project_alone(site: Site) -> None:
    container_id = await site.world.new_container()
    foreign = new_project_id()
    async with site.world.database.transaction() as session:
        organization = (
            await session.execute(text("SELECT organization_id FROM projects LIMIT 1"))
        ).scalar_one()
        session.add(ProjectRow(id=foreign, organization_id=organization, name="other"))
    copy = (
        "INSERT INTO containers SELECT (jsonb_populate_record(c, jsonb_build_object("
        "'id', 'ctr_' || repeat('z', 20), 'project_id', CAST(:project AS text)))).* FROM containers c WHERE c.id = :id"
    )
    async with asyncio.timeout(30), events(site) as stream:
        await is_listened_to(site, stream, container_id)
        await site.execute(copy, project=foreign, id=container_id)
        await site.execute("UPDATE containers SET state = 'PULLING' WHERE project_id = :id", id=foreign)
        await site.execute("UPDATE containers SET state = 'STARTING' WHERE id = :id", id=container_id)
        # Notices come in the order of the commits: whatever the foreign changes caused would be here, or in it.
        assert await anext(stream) == [container_id]


async def test_a_pass_that_changed_nothing_is_no_news(site: Site) -> None:
    quiet, changed = await site.world.new_container(), await site.world.new_container()
    async with asyncio.timeout(30), events(site) as stream:
        await is_listened_to(site, stream, changed)
        await site.execute(
            "UPDATE containers SET changes = changes + 1, reconcile_at = now() WHERE id = :id", id=quiet
        )
        await site.execute("UPDATE containers SET message = 'news' WHERE id = :id", id=changed)
        assert await anext(stream) == [changed]


@pytest.mark.parametrize("how", ["key revoked", "project removed"])
@pytest.mark.long
async def test_the_stream_ends_with_the_right_to_it(
    site: Site, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting_access, "ASK_AGAIN_EVERY_S", 0.2)
    statements = {
        "key revoked": "UPDATE api_keys SET revoked_at = now()",
        "project removed": "UPDATE projects SET deleted_at = now()",
    }
    # Well before the next word that it would get anyway.
    async with asyncio.timeout(endpoints.HEARTBEAT_EVERY_S - 5), events(site) as stream:
        await site.execute(statements[how])
        async for notice in stream:
            assert notice == []


async def test_one_key_has_only_so_many_streams(site: Site) -> None:
    async with asyncio.timeout(60), contextlib.AsyncExitStack() as stack:
        for _ in range(Settings().streams_per_person):
            await stack.enter_async_context(events(site))
        refused = await site.client.get(site.path)
        assert refused.status_code == 429
        assert refused.json()["code"] == "too_many_streams"
    async with asyncio.timeout(30):

        async def is_room() -> bool:
            async with site.client.stream("GET", site.path) as answer:
                return answer.status_code == 200

        await eventually(is_room, "those that ended leave room")


def test_a_flood_is_told_as_anything() -> None:
    watch = Watch("prj", "usr")
    assert watch.take() is None
    for number in range(MOST_NAMED + 1):
        watch.add(f"ctr_{number}")
    assert watch.take() == []
    watch.add("ctr_1")
    watch.add("ctr_1")
    assert watch.take() == ["ctr_1"]
    assert watch.take() is None

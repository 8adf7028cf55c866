"""A draft on a real Docker engine: good settings stay, bad ones go back."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from reconciler_support import driven, eventually, new_world
from test_reconciler_drafts import apply, draft, running, settled, went_back

from moorage.catalog.repository import replace_nodes
from moorage.engines.docker.engine import DockerEngine
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.ids import new_installation_id
from tests.engine_fixtures import remove_installation

HTTPD = "httpd -f -p 8000 -h /www"


@pytest.fixture
async def engine(docker_host: str) -> AsyncIterator[DockerEngine]:
    installation_id = new_installation_id()
    opened = DockerEngine(docker_host, installation_id, system_clock)
    await opened.prepare()
    yield opened
    await opened.close()
    await remove_installation(docker_host, installation_id)


@pytest.mark.long
async def test_applied_and_gone_back(database: Database, engine: DockerEngine, busybox_image: str) -> None:
    world = await new_world(database)
    async with database.transaction() as session:
        await replace_nodes(session, await engine.capacity())
    async with driven(world, engine):
        settings: dict[str, Any] = {
            "image": busybox_image,
            "start_command": HTTPD,
            "health_path": "/index.html",
        }
        container_id = await running(world, **settings)
        before = await world.container(container_id)

        await draft(world, container_id, start_command=f"{HTTPD} -v")
        await world.ask(apply, container_id)
        await eventually(lambda: settled(world, container_id), "the new command serves", timeout_s=60)
        good = await world.container(container_id)
        assert (good.settings["start_command"], good.draft) == (f"{HTTPD} -v", None)

        await draft(world, container_id, start_command="sh -c 'echo broken; exit 3'")
        await world.ask(apply, container_id)
        await eventually(lambda: went_back(world, container_id), "it went back", timeout_s=60)
        row = await world.container(container_id)
        assert row.settings == good.settings
        assert (row.image_ref, row.reason) == (before.image_ref, "exited")
        assert "exit code 3" in (row.message or "")
        assert row.generation in {one.generation for one in await engine.list_replicas()}

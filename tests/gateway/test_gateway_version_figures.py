"""What two versions beside each other answered is counted for each of them, at a real HAProxy."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from gateway_support import Container, Place, make_place, new_key, run_container, table
from sqlalchemy import func

from moorage.catalog.repository import fill_empty_catalogue
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.rollout import Rollout
from moorage.containers.states import Strategy
from moorage.containers.update_rule import Figures
from moorage.containers.versions.repository import read_figures
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route, Server
from moorage.gateway.version_figures import VersionFigures
from moorage.kit import ids
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.ids import ContainerId, ReplicaId
from moorage.organizations.models import OrganizationRow, ProjectRow

PROJECT = ids.new_project_id()
KEY = new_key(PROJECT)
OLD, NEW = 1, 2


@pytest.fixture
def place(short_folder: Path) -> Iterator[Place]:
    (short_folder / "run").mkdir()
    (short_folder / "run").chmod(0o755)
    place = make_place(short_folder, queue_limit=100, queue_timeout_s=10, server_idle_timeout_s=10)
    yield place
    place.kill()


@pytest.fixture
async def gateway(place: Place) -> DataPlane:
    gateway = place.dataplane(initial_slots=2)
    await gateway.start()
    return gateway


async def updated(database: Database, name: ContainerId, replicas: dict[ReplicaId, int]) -> None:
    """A container with an update under way, and a replica of each version."""
    rollout = Rollout(Strategy.ROLLING, NEW, OLD, datetime.now(UTC), watch_s=180, from_generation=1)
    organization = ids.new_organization_id()
    async with database.transaction() as session:
        await fill_empty_catalogue(session)
        session.add(OrganizationRow(id=organization, name="Acme"))
        await session.flush()
        session.add(ProjectRow(id=PROJECT, organization_id=organization, name="default"))
        await session.flush()
        session.add(
            ContainerRow(
                id=name,
                project_id=PROJECT,
                name="chat",
                instance_type="cpu-nano",
                settings={},
                secrets=b"",
                desired_state="running",
                desired_replicas=1,
                generation=2,
                version=NEW,
                state="RUNNING",
                state_since=func.now(),
                rollout=rollout.to_json(),
            )
        )
        await session.flush()
        for number, (replica_id, version) in enumerate(replicas.items()):
            session.add(
                ReplicaRow(
                    id=replica_id,
                    container_id=name,
                    slot=0,
                    generation=version,
                    version=version,
                    instance_type="cpu-nano",
                    state="routed",
                    node="here",
                    host="127.0.0.1",
                    host_port=20_000 + number,
                )
            )


async def ask(client: aiohttp.ClientSession, name: ContainerId, path: str = "v1") -> int:
    async with client.get(f"/c/{name}/{path}", headers=KEY.headers) as response:
        await response.read()
        return response.status


async def figures(database: Database, name: ContainerId) -> dict[int, Figures]:
    async with database.reading() as session:
        return await read_figures(session, name)


async def test_each_answer_is_its_versions(
    gateway: DataPlane, client: aiohttp.ClientSession, container: Container, database: Database
) -> None:
    name = ids.new_container_id()
    async with run_container() as new:
        old_server = container.server()
        new_server = Server(ids.new_replica_id(), "127.0.0.1", new.port)
        await updated(database, name, {old_server.replica_id: OLD, new_server.replica_id: NEW})
        reporter = VersionFigures(ids.new_gateway_id(), database, gateway, system_clock)
        await gateway.apply(table([Route(name, PROJECT, (old_server,))], [KEY]))
        for _ in range(5):
            await ask(client, name)
        await reporter.report()
        assert await figures(database, name) == {}, "what was answered before is not the update's"

        await gateway.apply(table([Route(name, PROJECT, (old_server, new_server))], [KEY]))
        before = len(container.seen)
        for path, status in (("v1", 200), ("unavailable", 503), ("close", 502)):
            for _ in range(10):
                assert await ask(client, name, path) == status
        await reporter.report()
        await reporter.report()
        found = await figures(database, name)
        good, bad = (sum(one.path.endswith(path) for one in new.seen) for path in ("/v1", "/unavailable"))
        broken = found[NEW].answers - good - bad
        assert found[NEW].errors == bad + broken
        # Each may have been both's: a gateway does not say whose connection broke, only how many it answered for.
        assert 5 <= broken <= 10
        assert found[OLD].answers <= len(container.seen) - before + 5
        assert found[OLD].errors >= 5

        # Once it has ended, nobody asks any more.
        async with database.transaction() as session:
            row = await session.get(ContainerRow, name)
            assert row is not None
            row.rollout = None
        await ask(client, name)
        await reporter.report()
        assert await figures(database, name) == found

"""Two gateways, each with an agent and an HAProxy of its own, on one Postgres."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from gateway_support import Container, Place, eventually, make_place, run_container
from sqlalchemy import func, select, text

from moorage.catalog.repository import fill_empty_catalogue
from moorage.containers.channels import ROUTES
from moorage.containers.models import ContainerRow, ReplicaRouteRow, ReplicaRow
from moorage.containers.spec import ContainerSettings, RegistryProvider, ResourceMode
from moorage.gateway.agent import GatewayAgent
from moorage.gateway.repository import forget_gateway
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.kit import ids
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener, notify
from moorage.organizations.models import OrganizationRow, ProjectRow

SECRET = "moor_" + "4" * 28
HEADERS = {"Authorization": f"Bearer {SECRET}"}
SMALL = "cpu-small"


@dataclass
class Gateway:
    id: ids.GatewayId
    place: Place
    running: asyncio.Task[None]

    async def ask(self, container_id: str, path: str = "/v1") -> int:
        url = f"http://127.0.0.1:{self.place.port}/c/{container_id}{path}"
        async with aiohttp.ClientSession() as client, client.get(url, headers=HEADERS) as response:
            return response.status

    async def listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.place.port)
        except ConnectionRefusedError:
            return False
        writer.close()
        return True

    async def die(self) -> None:
        """The agent; its HAProxy stays."""
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
            await self.running


@contextlib.asynccontextmanager
async def new_gateway(folder: Path, database: Database) -> AsyncIterator[Gateway]:
    place = make_place(folder, server_idle_timeout_s=60)
    listener, gateway_id = Listener(database.dsn), ids.new_gateway_id()
    agent = GatewayAgent(gateway_id, database, listener, place.dataplane(), system_clock)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.run())
            group.create_task(agent.run())

    gateway = Gateway(gateway_id, place, asyncio.create_task(run()))
    try:
        await eventually(gateway.listens)
        yield gateway
    finally:
        await gateway.die()
        place.kill()


@pytest.fixture
async def gateways(database: Database, short_folder: Path) -> AsyncIterator[tuple[Gateway, Gateway]]:
    for name in "ab":
        os.mkdir(short_folder / name, 0o755)
    async with (
        new_gateway(short_folder / "a", database) as one,
        new_gateway(short_folder / "b", database) as two,
    ):
        yield one, two


@dataclass
class World:
    database: Database
    container_id: str

    async def add_replica(self, container: Container) -> str:
        replica_id = ids.new_replica_id()
        async with self.database.transaction() as session:
            replica = ReplicaRow(
                id=replica_id,
                container_id=self.container_id,
                slot=0,
                generation=1,
                instance_type=SMALL,
                state="ready",
                node="local",
                host="127.0.0.1",
                host_port=container.port,
            )
            session.add(replica)
            await notify(session, ROUTES, about=self.container_id)
        return replica_id

    async def move(self, replica_id: str, state: str, *, tell: bool = True) -> None:
        async with self.database.transaction() as session:
            await session.execute(
                text("UPDATE replicas SET state = :state WHERE id = :id"), {"state": state, "id": replica_id}
            )
            if tell:
                await notify(session, ROUTES, about=self.container_id)

    async def holders(self, replica_id: str) -> dict[str, tuple[bool, int]]:
        """Gateways that have it: whether it drains there, and what is in flight."""
        query = select(ReplicaRouteRow.gateway_id, ReplicaRouteRow.draining, ReplicaRouteRow.in_flight)
        async with self.database.transaction() as session:
            rows = await session.execute(query.where(ReplicaRouteRow.replica_id == replica_id))
            return {gateway_id: (draining, in_flight) for gateway_id, draining, in_flight in rows}


@pytest.fixture
async def world(database: Database) -> World:
    organization_id, project_id = ids.new_organization_id(), ids.new_project_id()
    container_id = ids.new_container_id()
    settings = ContainerSettings("local/chat:1", RegistryProvider.LOCAL, None, ResourceMode.GENERAL, SMALL)
    async with database.transaction() as session:
        await fill_empty_catalogue(session)
        session.add(OrganizationRow(id=organization_id, name="acme"))
        await session.flush()
        session.add(ProjectRow(id=project_id, organization_id=organization_id, name="default"))
        await session.flush()
        session.add(
            ContainerRow(
                id=container_id,
                project_id=project_id,
                name="chat",
                instance_type=SMALL,
                settings=settings.to_json(),
                secrets=b"",
                desired_state="running",
                desired_replicas=1,
                generation=1,
                state="RUNNING",
                state_since=func.now(),
            )
        )
        key_hash = hashlib.sha256(SECRET.encode()).digest()
        session.add(
            ApiKeyRow(
                id=ids.new_api_key_id(),
                project_id=project_id,
                name="test",
                scope="inference",
                key_hash=key_hash,
                hint="4444",
            )
        )
    return World(database, container_id)


async def test_a_gateway_that_was_forgotten_too_early_reports_again(
    world: World, gateways: tuple[Gateway, Gateway], container: Container
) -> None:
    one, _ = gateways
    replica_id = await world.add_replica(container)

    async def held() -> bool:
        return one.id in await world.holders(replica_id)

    await eventually(held)
    async with world.database.transaction() as session:
        await forget_gateway(session, one.id)
    assert not await held()
    await eventually(held)
    # And it goes on reporting what changes.
    await world.move(replica_id, "draining")

    async def let_go() -> bool:
        return not await held()

    await eventually(let_go)


async def test_both_serve_and_a_replica_is_gone_when_both_have_let_go(
    world: World, gateways: tuple[Gateway, Gateway], container: Container
) -> None:
    one, two = gateways
    replica_id = await world.add_replica(container)

    async def held_by_both() -> bool:
        return await world.holders(replica_id) == {one.id: (False, 0), two.id: (False, 0)}

    await eventually(held_by_both)
    for gateway in gateways:
        assert await gateway.ask(world.container_id) == 200

    held = asyncio.create_task(two.ask(world.container_id, "/hold"))
    await eventually(lambda: container.waiting == 1)
    await world.move(replica_id, "draining")

    async def only_the_busy_one() -> bool:
        return await world.holders(replica_id) == {two.id: (True, 1)}

    await eventually(only_the_busy_one)
    for gateway in gateways:
        assert await gateway.ask(world.container_id) == 503
    container.release.set()
    assert await held == 200

    async def held_by_none() -> bool:
        return await world.holders(replica_id) == {}

    await eventually(held_by_none)


async def test_a_gateway_whose_agent_died_serves_on_and_keeps_what_it_has(
    world: World, gateways: tuple[Gateway, Gateway], container: Container
) -> None:
    one, two = gateways
    replica_id = await world.add_replica(container)

    async def held_by_both() -> bool:
        return len(await world.holders(replica_id)) == 2

    await eventually(held_by_both)
    await two.die()
    async with run_container() as successor:
        await world.move(replica_id, "stopped")
        new_id = await world.add_replica(successor)

        async def moved_on() -> bool:
            return set(await world.holders(new_id)) == {one.id}

        await eventually(moved_on)
        assert await one.ask(world.container_id) == 200
        assert len(successor.seen) == 1
        # The other still sends requests to the old one, and nobody else may have that port: its row says so.
        assert await two.ask(world.container_id) == 200
        assert len(container.seen) == 1
        assert set(await world.holders(replica_id)) == {two.id}


async def test_what_nobody_tells_is_found_by_the_next_comparison(
    world: World, gateways: tuple[Gateway, Gateway], container: Container
) -> None:
    """Also when the rows are again as they were at the comparison before: only that container was looked at since."""
    one, _ = gateways
    replica_id = await world.add_replica(container)

    async def held() -> bool:
        return one.id in await world.holders(replica_id)

    async def let_go() -> bool:
        return one.id not in await world.holders(replica_id)

    await eventually(held)
    await world.move(replica_id, "starting", tell=False)
    await eventually(let_go)
    assert await one.ask(world.container_id) == 503


async def test_the_only_container_of_its_bucket_is_deleted_just_after_it_was_looked_at(
    world: World, gateways: tuple[Gateway, Gateway], container: Container
) -> None:
    """Then no row is left that a comparison could find changed: what must be found is that there is none."""
    one, _ = gateways
    replica_id = await world.add_replica(container)

    async def answers(status: int) -> bool:
        return await one.ask(world.container_id) == status

    await eventually(lambda: answers(200))
    await world.move(replica_id, "stopped")
    await eventually(lambda: answers(503))
    async with world.database.transaction() as session:
        await session.execute(text("UPDATE containers SET deleted_at = now()"))
    await eventually(lambda: answers(404))

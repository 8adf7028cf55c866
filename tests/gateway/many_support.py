"""Two gateways, each with an agent and an HAProxy of its own, on one Postgres."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from gateway_support import Container, Place, eventually, make_place
from sqlalchemy import func, select, text

from moorage.catalog.repository import fill_empty_catalogue
from moorage.containers.channels import ROUTES
from moorage.containers.models import ContainerRow, ReplicaRouteRow, ReplicaRow
from moorage.containers.spec import ContainerSettings, RegistryProvider, ResourceMode
from moorage.gateway.agent import GatewayAgent
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.limit_shares import LimitShares
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
    dataplane: DataPlane
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
async def new_gateway(folder: Path, database: Database, **overrides: Any) -> AsyncIterator[Gateway]:
    os.mkdir(folder, 0o755)
    place = make_place(folder, server_idle_timeout_s=60, **overrides)
    listener, gateway_id, dataplane = Listener(database.dsn), ids.new_gateway_id(), place.dataplane()
    shares = LimitShares(gateway_id, database, listener, dataplane, system_clock)
    agent = GatewayAgent(gateway_id, database, listener, dataplane, system_clock, shares.applied, shares.join)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.run())
            group.create_task(agent.run())
            group.create_task(shares.run())

    gateway = Gateway(gateway_id, place, dataplane, asyncio.create_task(run()))
    try:
        await eventually(gateway.listens)
        yield gateway
    finally:
        await gateway.die()
        place.kill()


@dataclass
class World:
    database: Database
    container_id: str
    key_id: str
    replica_id: str = ""
    """The last that was added."""

    async def add_replica(self, container: Container) -> str:
        self.replica_id = replica_id = ids.new_replica_id()
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


async def make_world(database: Database) -> World:
    organization_id, project_id = ids.new_organization_id(), ids.new_project_id()
    container_id, key_id = ids.new_container_id(), ids.new_api_key_id()
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
                id=key_id,
                project_id=project_id,
                name="test",
                scope="inference",
                key_hash=key_hash,
                hint="4444",
            )
        )
    return World(database, container_id, key_id)

"""A sleeping container in real rows, and gateways that hold for it. The test is the controller: it says when a replica is ready."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
from gateway_support import Container, Place, eventually, make_place
from sqlalchemy import func, select, text, update

from moorage.catalog.repository import fill_empty_catalogue
from moorage.containers.channels import ROUTES
from moorage.containers.models import ActivityRow, ContainerRow, ReplicaRow
from moorage.containers.sleep.models import SleepRow
from moorage.containers.spec import ContainerSettings, RegistryProvider, ResourceMode
from moorage.gateway.agent import GatewayAgent
from moorage.gateway.holding.holder import Holder
from moorage.gateway.holding.limits import HoldLimits
from moorage.gateway.holding.messages import COMMENT
from moorage.gateway.holding.records import HeldRecords
from moorage.gateway.holding.waking import Waker
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.kit import ids
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener, notify
from moorage.kit.settings import Settings
from moorage.ledger.repository import grant_initial_credit
from moorage.organizations.models import OrganizationRow, ProjectRow

SECRET = "moor_" + "4" * 28
HEADERS = {"Authorization": f"Bearer {SECRET}"}
TYPE = "cpu-nano"
SETTINGS = Settings(home=Path("/nonexistent"))
LIMITS = HoldLimits()


@dataclass
class Answer:
    status: int
    body: str
    headers: dict[str, str]
    broke: bool = False
    """The connection ended before the answer did."""


@dataclass
class HoldingGateway:
    place: Place
    holder: Holder
    running: asyncio.Task[None]
    told_to_wait: int = 0
    """Clients that have read the first part of a stream which has not begun at its container."""

    def url(self, container_id: str, path: str = "/v1/chat/completions") -> str:
        return f"http://127.0.0.1:{self.place.port}/c/{container_id}{path}"

    async def ask(
        self,
        client: aiohttp.ClientSession,
        container_id: str,
        *,
        stream: bool = False,
        path: str = "/v1/chat/completions",
        **more: Any,
    ) -> Answer:
        asked = {"messages": [{"role": "user", "content": "hello"}], "stream": stream}
        arguments = {"json": asked, "headers": HEADERS} | more
        async with client.post(self.url(container_id, path), **arguments) as response:
            pieces: list[bytes] = []
            broke = False
            try:
                async for piece in response.content.iter_any():
                    self.told_to_wait += not pieces and piece.startswith(COMMENT)
                    pieces.append(piece)
            except aiohttp.ClientError:
                broke = True
            body = b"".join(pieces).decode()
            return Answer(response.status, body, dict(response.headers), broke)

    async def die(self) -> None:
        """Its process, with all that it holds; its HAProxy stays."""
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
            await self.running


@contextlib.asynccontextmanager
async def holding_gateway(
    folder: Path, database: Database, limits: HoldLimits = LIMITS
) -> AsyncIterator[HoldingGateway]:
    place = make_place(
        folder,
        holder_socket=folder / "holder.sock",
        released_socket=folder / "run" / "released.sock",
        hold_timeout_s=max(1, int(limits.timeout_s)),
        queue_limit=1000,
        queue_timeout_s=30,
    )
    gateway_id = ids.new_gateway_id()
    holder = Holder(
        folder / "holder.sock",
        folder / "run" / "released.sock",
        Waker(database, SETTINGS, system_clock),
        HeldRecords(gateway_id, database, system_clock),
        limits,
        system_clock,
        place.config.user,
    )
    listener = Listener(database.dsn)
    agent = GatewayAgent(gateway_id, database, listener, place.dataplane(), system_clock, holder.applied)

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for part in (listener.run(), holder.run(), agent.run()):
                group.create_task(part)

    gateway = HoldingGateway(place, holder, asyncio.create_task(run()))
    try:
        await eventually(lambda: holder._serves is not None and bool(holder._serves[0].routes))
        yield gateway
    finally:
        await gateway.die()
        place.kill()


@dataclass
class Sleeper:
    database: Database
    container_id: str
    organization_id: str

    async def row(self) -> ContainerRow:
        async with self.database.reading() as session:
            return (
                await session.execute(select(ContainerRow).where(ContainerRow.id == self.container_id))
            ).scalar_one()

    async def is_woken(self) -> bool:
        return (await self.row()).woken_at is not None

    async def put(self, **values: Any) -> None:
        """As the reconciler would write it."""
        async with self.database.transaction() as session:
            await session.execute(
                update(ContainerRow).where(ContainerRow.id == self.container_id).values(values)
            )
            await notify(session, ROUTES, about=self.container_id)

    async def serve(self, container: Container) -> None:
        async with self.database.transaction() as session:
            session.add(
                ReplicaRow(
                    id=ids.new_replica_id(),
                    container_id=self.container_id,
                    slot=0,
                    generation=1,
                    instance_type=TYPE,
                    state="ready",
                    node="local",
                    host="127.0.0.1",
                    host_port=container.port,
                )
            )
            await notify(session, ROUTES, about=self.container_id)

    async def count(self, kind: str) -> int:
        there = (ActivityRow.container_id == self.container_id) & (ActivityRow.kind == kind)
        async with self.database.reading() as session:
            return (await session.execute(select(func.count()).where(there))).scalar_one()

    async def spend_all(self) -> None:
        async with self.database.transaction() as session:
            await session.execute(
                text("UPDATE credit_accounts SET available_microusd = 0 WHERE organization_id = :id"),
                {"id": self.organization_id},
            )


async def new_sleeper(database: Database) -> Sleeper:
    organization_id, project_id = ids.new_organization_id(), ids.new_project_id()
    container_id = ids.new_container_id()
    settings = replace(
        ContainerSettings("local/chat:1", RegistryProvider.LOCAL, None, ResourceMode.GENERAL, TYPE),
        sleep_after_s=60,
    )
    async with database.transaction() as session:
        await fill_empty_catalogue(session)
        session.add(OrganizationRow(id=organization_id, name="acme"))
        await session.flush()
        session.add(ProjectRow(id=project_id, organization_id=organization_id, name="default"))
        await session.flush()
        await grant_initial_credit(session, organization_id, f"usr_{organization_id}")
        session.add(
            ContainerRow(
                id=container_id,
                project_id=project_id,
                name="chat",
                instance_type=TYPE,
                settings=settings.to_json(),
                secrets=b"",
                desired_state="running",
                desired_replicas=1,
                generation=1,
                serving_generation=1,
                state="RUNNING",
                state_since=func.now(),
                asleep_since=func.now(),
            )
        )
        await session.flush()
        session.add(
            SleepRow(
                container_id=container_id, asleep_at=func.now(), replicas=1, price_per_hour_microusd=1000
            )
        )
        session.add(
            ApiKeyRow(
                id=ids.new_api_key_id(),
                project_id=project_id,
                name="test",
                scope="inference",
                key_hash=hashlib.sha256(SECRET.encode()).digest(),
                hint="4444",
            )
        )
    return Sleeper(database, container_id, organization_id)

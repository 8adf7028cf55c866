"""A project with containers and replicas in the database, and an engine that prints what a test says."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy import func, select, text

from moorage.catalog.defaults import default_catalogue
from moorage.catalog.repository import fill_empty_catalogue
from moorage.containers.models import ContainerRow, ReplicaRow
from moorage.containers.secrets import seal
from moorage.containers.spec import ContainerSecrets
from moorage.engines.base import LogChunk, LogStream, ObservedReplica, ReplicaPhase
from moorage.kit.clock import system_clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.kit.ids import (
    ContainerId,
    ReplicaId,
    new_container_id,
    new_organization_id,
    new_project_id,
    new_replica_id,
)
from moorage.organizations.models import OrganizationRow, ProjectRow
from moorage.reconcile.lease import Lease, LeaseKeeper
from moorage.telemetry.logs.copying import Source
from moorage.telemetry.logs.models import LogLineRow

OUT, ERR = LogStream.STDOUT, LogStream.STDERR
OURS = 3
"""The stream of what Moorage says itself, as it is stored."""
KEYRING = Keyring(((b"\x01" * 4, b"\x02" * 32),))
BASE_NS = int(datetime(2026, 5, 1, tzinfo=UTC).timestamp()) * 10**9
SECRET = "swordfish-42"


def chunk(offset_ns: int, text: str, stream: LogStream = OUT, *, ends: bool = True) -> LogChunk:
    return LogChunk(BASE_NS + offset_ns, stream, text.encode(), ends)


def numbered(count: int, prefix: str = "line") -> list[LogChunk]:
    """Every third line has the time of the one before it."""
    return [chunk((number - (number % 3 == 2)) * 1000, f"{prefix} {number}") for number in range(count)]


@dataclass
class Printer:
    """One replica in the scripted engine."""

    chunks: list[LogChunk]
    ended: bool = True
    gone: bool = False
    breaks_after: list[int] = field(default_factory=list)
    """Each read in turn is broken off after so many chunks; later reads are not."""
    together: int = 1
    """How many chunks come at once, in a read that is not broken off."""
    breaks_cleanly: bool = False
    """Such a read ends as if there were no more, as an engine's may that is being stopped."""
    on_chunk: Callable[[], None] = lambda: None
    on_read: Callable[[], None] = lambda: None
    reads: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def prints(self, *chunks: LogChunk) -> None:
        self.chunks += chunks
        self.changed.set()

    def ends(self) -> None:
        self.ended = True
        self.changed.set()


class ScriptedEngine:
    """The parts of `Engine` that logs need."""

    def __init__(self) -> None:
        self.printers: dict[str, Printer] = {}

    async def inspect(self, replica_id: ReplicaId) -> ObservedReplica | None:
        printer = self.printers[replica_id]
        if printer.gone:
            return None
        phase = ReplicaPhase.EXITED if printer.ended else ReplicaPhase.RUNNING
        exit_code = 0 if printer.ended else None
        return ObservedReplica(
            replica_id,
            ContainerId("ctr_x"),
            0,
            1,
            replica_id,
            phase,
            "127.0.0.1",
            1,
            None,
            None,
            exit_code,
            False,
        )

    async def logs(
        self, engine_id: str, since_ns: int, last: int | None = None
    ) -> AsyncIterator[Sequence[LogChunk]]:
        printer = self.printers[engine_id]
        breaks_after = (
            printer.breaks_after[printer.reads] if printer.reads < len(printer.breaks_after) else None
        )
        printer.reads += 1
        printer.on_read()
        at = max(0, len(printer.chunks) - last) if last is not None else 0
        given = 0
        while True:
            printer.changed.clear()
            while printer.together > 1 and at < len(printer.chunks):
                bundle = [
                    one for one in printer.chunks[at : at + printer.together] if one.time_ns >= since_ns
                ]
                at = min(at + printer.together, len(printer.chunks))
                await asyncio.sleep(0)
                if bundle:
                    yield bundle
            for one in printer.chunks[at:]:
                at += 1
                if one.time_ns < since_ns:
                    continue
                if given == breaks_after and printer.breaks_cleanly:
                    return
                if given == breaks_after:
                    raise EngineError("the connection broke")
                given += 1
                printer.on_chunk()
                await asyncio.sleep(0)
                yield [one]
            if printer.ended:
                return
            await printer.changed.wait()


@dataclass
class World:
    database: Database
    project_id: str
    organization_id: str
    engine: ScriptedEngine
    lease: Lease
    containers: int = 0

    async def new_container(self, environment: dict[str, str] | None = None) -> str:
        self.containers += 1
        container_id = new_container_id()
        secrets = ContainerSecrets(environment=environment or {"TOKEN": SECRET, "MODE": "fast"})
        async with self.database.transaction() as session:
            session.add(
                ContainerRow(
                    id=container_id,
                    project_id=self.project_id,
                    name=f"container-{self.containers}",
                    instance_type=default_catalogue()[0].name,
                    settings={},
                    secrets=seal(KEYRING, container_id, secrets),
                    desired_state="running",
                    desired_replicas=1,
                    generation=1,
                    state="RUNNING",
                    state_since=func.now(),
                )
            )
        return container_id

    async def new_replica(
        self, container_id: str, printer: Printer | None = None, *, state: str = "routed"
    ) -> Source:
        replica_id = new_replica_id()
        async with self.database.transaction() as session:
            count = (await session.execute(select(func.count()).select_from(ReplicaRow))).scalar_one()
            row = ReplicaRow(
                id=replica_id,
                container_id=container_id,
                slot=count,
                generation=1,
                instance_type=default_catalogue()[0].name,
                state=state,
                node="here",
                host_port=20000 + count,
                engine_id=replica_id if printer else None,
            )
            session.add(row)
        if printer is not None:
            self.engine.printers[replica_id] = printer
        return Source(replica_id, container_id, self.project_id, self.organization_id, replica_id)

    async def replica(self, replica_id: str) -> ReplicaRow:
        async with self.database.transaction() as session:
            return (await session.execute(select(ReplicaRow).where(ReplicaRow.id == replica_id))).scalar_one()

    async def stored(self, replica_id: str) -> list[LogLineRow]:
        query = select(LogLineRow).where(LogLineRow.replica_id == replica_id).order_by(LogLineRow.sequence)
        async with self.database.transaction() as session:
            return list((await session.execute(query)).scalars())

    async def texts(self, replica_id: str) -> list[str]:
        return [line.text for line in await self.stored(replica_id)]


async def new_world(database: Database) -> World:
    organization_id, project_id = new_organization_id(), new_project_id()
    async with database.transaction() as session:
        await fill_empty_catalogue(session)
        session.add(OrganizationRow(id=organization_id, name="Acme"))
        await session.flush()
        session.add(ProjectRow(id=project_id, organization_id=organization_id, name="default"))
    lease = await LeaseKeeper(database, "logs", "test", system_clock).acquire()
    assert lease is not None
    lease.deadline_s += 3600  # tests renew nothing
    async with database.transaction() as session:
        await session.execute(text("UPDATE leases SET expires_at = now() + interval '1 hour'"))
    return World(database, project_id, organization_id, ScriptedEngine(), lease)


async def eventually(condition: Callable[[], Awaitable[bool]], what: str, timeout_s: float = 90.0) -> None:
    deadline_s = system_clock.monotonic() + timeout_s
    while not await condition():
        assert system_clock.monotonic() < deadline_s, f"not within {timeout_s} s: {what}"
        await asyncio.sleep(0.02)


def per_stream(chunks: Sequence[LogChunk]) -> dict[LogStream, list[str]]:
    """The lines of each stream, by hand: chunks joined until one ends the line."""
    lines: dict[LogStream, list[str]] = {OUT: [], ERR: []}
    unfinished = {OUT: "", ERR: ""}
    for one in chunks:
        unfinished[one.stream] += one.data.decode()
        if one.ends_line:
            lines[one.stream].append(unfinished[one.stream])
            unfinished[one.stream] = ""
    for stream, rest in unfinished.items():
        lines[stream] += [rest] if rest else []
    return lines

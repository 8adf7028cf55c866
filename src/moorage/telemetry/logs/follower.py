"""Follows one replica's output to its last line.

Purpose: everything a replica prints is stored once and in order, however often the reader breaks off.
Invariants: a batch and the cursor behind it are one transaction, guarded by the lease; a replica is marked
collected only after a read that began when its process had ended already, so that nothing printed last is
missed; nothing is stored before the container's secrets are known.
When it fails: it reads its cursor again and goes on from there, after a pause that grows.
"""

import asyncio
from dataclasses import dataclass, field

import structlog

from moorage.engines.base import Engine, ReplicaPhase
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.errors import EngineError, LeaseLostError
from moorage.kit.ids import ReplicaId
from moorage.reconcile.lease import Lease
from moorage.telemetry.logs import repository
from moorage.telemetry.logs.allowance import LINES_PER_S, Allowance
from moorage.telemetry.logs.buffer import Batch, LineBuffer
from moorage.telemetry.logs.copying import Source
from moorage.telemetry.logs.cursor import LineAssembler
from moorage.telemetry.logs.masking import Masker
from moorage.telemetry.logs.pace import FellBehindError, Pace
from moorage.telemetry.logs.preparing import Preparer
from moorage.telemetry.logs.text import LINE_BYTES

log = structlog.get_logger()

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 10.0


@dataclass
class Follower:
    source: Source
    database: Database
    engines: Engines
    keyring: Keyring
    clock: Clock
    lease: Lease
    writers: asyncio.Semaphore
    """Shared by all followers; gives way in turn, so that a flood waits behind everybody's next batch."""
    preparer: Preparer
    """Shared by all followers."""
    _allowance: Allowance = field(init=False, default_factory=Allowance)
    _pace: Pace = field(init=False)
    _stored_lines: int = field(init=False, default=0)
    _engine_was_away: bool = field(init=False, default=False)
    """Since its process was last seen running. An engine throws away what it finds of one that ended meanwhile."""
    _fell_behind: bool = field(init=False, default=False)
    """The last reading could not keep up with a flood: the next one begins near the end of the output."""

    def __post_init__(self) -> None:
        self._pace = Pace(self.clock)

    async def run(self) -> None:
        """Returns when all is stored; raises only `LeaseLostError`."""
        pause_s = FIRST_PAUSE_S
        while True:
            stored_before = self._stored_lines
            try:
                if await self._follow_once():
                    return
            except LeaseLostError:
                raise
            except Exception as exc:  # noqa: BLE001 - whatever broke off, the cursor knows where to go on
                log.warning("log_stream_broken", replica_id=self.source.replica_id, error=repr(exc))
            if self._stored_lines > stored_before:
                pause_s = FIRST_PAUSE_S
            await self.clock.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def _follow_once(self) -> bool:
        """Whether everything is stored now."""
        try:
            observed = await self._engine().inspect(ReplicaId(self.source.replica_id))
        except EngineError:
            self._engine_was_away = True
            raise
        if observed is None or observed.engine_id != self.source.engine_id:
            await self._finish()
            return True
        process_ended = observed.phase is ReplicaPhase.EXITED
        self._engine_was_away &= process_ended
        await self._read_and_store(process_ended)
        if process_ended:
            await self._finish()
        return process_ended

    def _engine(self) -> Engine:
        """Looked up each time: its machine may be away for now."""
        return self.engines.of(self.source.engine)

    async def _read_and_store(self, process_ended: bool) -> None:
        masker = await self._masker()
        async with self.database.transaction() as session:
            await self.lease.guard(session)
            cursor = await repository.find_or_create_cursor(session, self.source)
        assembler = LineAssembler(cursor, LINE_BYTES + masker.longest_bytes, self._allowance)
        self._pace.begin()
        buffer = LineBuffer(assembler, self._pace)
        last = LINES_PER_S if self._fell_behind else None
        bundles = self._engine().logs(self.source.engine_id, cursor.since_ns, last)
        self._fell_behind = False
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(
                    buffer.fill(bundles, process_ended=process_ended, engine_was_away=self._engine_was_away)
                )
                async for batch in buffer.batches():
                    await self._store(batch, masker)
        except BaseExceptionGroup as errors:
            first = _first_of(errors)
            self._fell_behind = isinstance(first, FellBehindError)
            raise first from errors

    async def _store(self, batch: Batch, masker: Masker) -> None:
        texts = await self.preparer.texts(self.source, batch.lines, masker)
        async with self.writers, self.database.transaction() as session:
            await self.lease.guard(session)
            await repository.store_lines(session, self.source, batch.lines, texts, batch.cursor)
        self._stored_lines += len(batch.lines)

    async def _finish(self) -> None:
        async with self.database.transaction() as session:
            await self.lease.guard(session)
            await repository.finish(session, self.source)
        log.info("logs_collected", replica_id=self.source.replica_id)

    async def _masker(self) -> Masker:
        async with self.database.reading() as session:
            sealed = await repository.sealed_secrets(session, self.source.container_id)
        return await self.preparer.masker(self.source, sealed, self.keyring)


def _first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """A task group wraps whatever ended it; the lease's loss counts most, because it ends everything."""
    lost = errors.subgroup(LeaseLostError)
    found: BaseException = lost or errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found

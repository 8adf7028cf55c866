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

from moorage.containers.secrets import unseal
from moorage.engines.base import Engine, ReplicaPhase
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.errors import LeaseLostError
from moorage.kit.ids import ReplicaId
from moorage.reconcile.lease import Lease
from moorage.telemetry.logs import repository
from moorage.telemetry.logs.buffer import Batch, LineBuffer
from moorage.telemetry.logs.cursor import LineAssembler, RawLine
from moorage.telemetry.logs.repository import NewLine, Source
from moorage.telemetry.logs.text import LINE_BYTES, Masker, harmless_text, masker_of

log = structlog.get_logger()

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 10.0
LINES_PER_S = 5000
BURST_LINES = 20_000
"""What one replica may have stored at once, and for long. A line of more than 1 KiB counts as several."""


@dataclass
class Follower:
    source: Source
    database: Database
    engine: Engine
    keyring: Keyring
    clock: Clock
    lease: Lease
    writers: asyncio.Semaphore
    """Shared by all followers; gives way in turn, so that a flood waits behind everybody's next batch."""
    _pace: "_Pace" = field(init=False)
    _stored_lines: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._pace = _Pace(self.clock)

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
        observed = await self.engine.inspect(ReplicaId(self.source.replica_id))
        if observed is None or observed.engine_id != self.source.engine_id:
            await self._finish()
            return True
        process_ended = observed.phase is ReplicaPhase.EXITED
        await self._read_and_store(process_ended)
        if process_ended:
            await self._finish()
        return process_ended

    async def _read_and_store(self, process_ended: bool) -> None:
        masker = await self._masker()
        async with self.database.transaction() as session:
            await self.lease.guard(session)
            cursor = await repository.find_or_create_cursor(session, self.source)
        buffer = LineBuffer(LineAssembler(cursor, LINE_BYTES + masker.longest_bytes))
        chunks = self.engine.logs(self.source.engine_id, cursor.since_ns)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(buffer.fill(chunks, process_ended=process_ended))
                async for batch in buffer.batches():
                    await self._store(batch, masker)
        except BaseExceptionGroup as errors:
            raise _first_of(errors) from errors

    async def _store(self, batch: Batch, masker: Masker) -> None:
        lines = [_new_line(raw, masker) for raw in batch.lines]
        async with self.writers, self.database.transaction() as session:
            await self.lease.guard(session)
            await repository.store_lines(session, self.source, lines, batch.cursor)
        self._stored_lines += len(lines)
        await self._pace.spend(max(len(lines), batch.bytes // 1024))

    async def _finish(self) -> None:
        async with self.database.transaction() as session:
            await self.lease.guard(session)
            await repository.finish(session, self.source)
        log.info("logs_collected", replica_id=self.source.replica_id)

    async def _masker(self) -> Masker:
        async with self.database.transaction() as session:
            sealed = await repository.sealed_secrets(session, self.source.container_id)
        secrets = unseal(self.keyring, self.source.container_id, sealed)
        password = [secrets.registry_password] if secrets.registry_password else []
        return masker_of([*secrets.environment.values(), *password])


class _Pace:
    """A bucket of lines that refills; who empties it waits, and nothing is dropped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lines = float(BURST_LINES)
        self._filled_at_s = clock.monotonic()

    async def spend(self, lines: int) -> None:
        now_s = self._clock.monotonic()
        refilled = self._lines + (now_s - self._filled_at_s) * LINES_PER_S
        self._lines, self._filled_at_s = min(refilled, BURST_LINES) - lines, now_s
        if self._lines < 0:
            await self._clock.sleep(-self._lines / LINES_PER_S)


def _new_line(raw: RawLine, masker: Masker) -> NewLine:
    return NewLine(raw.sequence, raw.time_ns, raw.stream, harmless_text(raw.head, raw.total_bytes, masker))


def _first_of(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """A task group wraps whatever ended it; the lease's loss counts most, because it ends everything."""
    lost = errors.subgroup(LeaseLostError)
    found: BaseException = lost or errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found

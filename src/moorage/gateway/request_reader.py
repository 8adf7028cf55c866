"""Reads what HAProxy logs of each request, and stores it.

Purpose: every request with a valid key is counted, those worth a record get one, and each key says when it was used.
Invariants: HAProxy never waits for us. It keeps its lines in a ring of its own, of which the oldest go when nobody
reads, and sends them in pieces of many: a tenth of what a datagram for each request costs it. What waits here is bounded.
When it fails: without Postgres a batch is tried again while others gather; one that Postgres refuses for good is given up
and said to be; when this process dies, HAProxy keeps the
lines for the next one. Requests that a reload left to the old worker end without a line: HAProxy closes the
ring of a worker that stops.
"""

import asyncio
import shutil
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import asyncpg
import structlog
from sqlalchemy.exc import DataError, IntegrityError

from moorage.gateway.request_collection import Batch, RequestCollection
from moorage.gateway.request_log import LoggedRequest, parse
from moorage.identity.api_keys.repository import note_uses
from moorage.kit.clock import Clock
from moorage.kit.database import Database, database_now
from moorage.kit.ids import GatewayId
from moorage.telemetry.partition_repository import create_partition
from moorage.telemetry.requests import repository

log = structlog.get_logger()

STORE_EVERY_S = 1.0
_LINE_BYTES_MAX = 4096
_LINES_AT_ONCE = 200


@dataclass
class RequestReader:
    gateway_id: GatewayId
    database: Database
    socket: Path
    clock: Clock
    records_per_s: int
    owner: str | None = None
    """The user that HAProxy connects as, where that is not ours."""
    also: Callable[[LoggedRequest], None] | None = None
    """Called with each request."""
    _collection: RequestCollection = field(init=False)
    _unstored: Batch | None = field(init=False, default=None)
    _unreadable: int = field(init=False, default=0)
    _connections: set[asyncio.Transport] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._collection = RequestCollection(self.records_per_s)

    async def run(self) -> None:
        self.socket.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(
            lambda: _Lines(self._take, self._connections), str(self.socket)
        )
        self.socket.chmod(0o600)
        if self.owner is not None:
            shutil.chown(self.socket, self.owner)
        try:
            while True:
                await self.clock.sleep(STORE_EVERY_S)
                await self._store_and_log()
        finally:
            server.close()
            for connection in tuple(self._connections):
                connection.abort()
            await self._store_and_log(everything=True)

    async def store(self, *, everything: bool = False) -> None:
        """All that can be stored now. Raises when Postgres does not take it; then it is kept."""
        if self._unstored is not None:
            await self._store_batch(self._unstored)
        self._unstored = self._collection.batch(self.clock.now(), everything=everything)
        if self._unstored is not None:
            await self._store_batch(self._unstored)

    async def _store_batch(self, batch: Batch) -> None:
        try:
            await self._write(batch)
        except asyncpg.UniqueViolationError:
            # It had been stored, and only the answer was lost.
            log.info("requests_stored_before", written_at=batch.written_at.isoformat())
        except asyncpg.CheckViolationError:
            await self._store_on_another_day(batch)
        except (
            asyncpg.DataError,
            asyncpg.IntegrityConstraintViolationError,
            DataError,
            IntegrityError,
        ) as exc:
            self._give_up(batch, exc)
        self._unstored = None

    async def _store_on_another_day(self, batch: Batch) -> None:
        """Its day has no partition: nobody made one in time, it is over for good, or our clock is wrong. The database's
        own day will do, and nothing of the batch is stored yet."""
        async with self.database.transaction() as session:
            now = await database_now(session)
            for table in repository.TABLES:
                await create_partition(session, table, now.date())
        log.warning("requests_of_another_day", written_at=batch.written_at.isoformat(), now=now.isoformat())
        # Kept under the new name, should the answer to this be lost.
        self._unstored = batch = replace(batch, written_at=now)
        try:
            await self._write(batch)
        except asyncpg.CheckViolationError as exc:
            self._give_up(batch, exc)

    async def _write(self, batch: Batch) -> None:
        async with self.database.transaction() as session:
            await repository.store(session, self.gateway_id, batch.written_at, batch.records, batch.figures)
            await note_uses(session, batch.uses)

    def _give_up(self, batch: Batch, error: Exception) -> None:
        """Postgres will never take it, and those behind it must not wait for ever."""
        log.error("requests_refused", error=repr(error))
        self._collection.dropped += len(batch.records) + len(batch.figures)

    async def _store_and_log(self, *, everything: bool = False) -> None:
        try:
            await self.store(everything=everything)
        except Exception as exc:  # noqa: BLE001 - logged, and tried again: the endpoints must not depend on us
            log.warning("requests_not_stored", error=repr(exc))
        if self._collection.dropped or self._unreadable:
            log.warning("requests_dropped", dropped=self._collection.dropped, unreadable=self._unreadable)
            self._collection.dropped = self._unreadable = 0

    def _take(self, line: bytes) -> None:
        try:
            request = parse(line)
        except ValueError:
            self._unreadable += 1
            return
        if request is not None:
            self._collection.take(request)
            if self.also is not None:
                self.also(request)


class _Lines(asyncio.Protocol):
    """One worker's lines, until it ends."""

    def __init__(self, take: Callable[[bytes], None], connections: set[asyncio.Transport]) -> None:
        self._take = take
        self._connections = connections
        self._rest = b""
        self._lines: deque[bytes] = deque()
        self._is_taking = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self._transport)

    def data_received(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        # Longer than any line that HAProxy writes: whatever it is, it is not kept.
        self._rest = rest[-_LINE_BYTES_MAX:]
        self._lines.extend(lines)
        if not self._is_taking:
            self._is_taking = True
            self._take_some()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self._transport)

    def _take_some(self) -> None:
        """In portions, between which others have their turn. HAProxy waits meanwhile: it has its ring."""
        for _ in range(min(_LINES_AT_ONCE, len(self._lines))):
            self._take(self._lines.popleft())
        if self._lines:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._take_some)
        else:
            self._is_taking = False
            if not self._transport.is_closing():
                self._transport.resume_reading()

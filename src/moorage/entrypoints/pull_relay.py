"""Where several controllers run, nodes ask any of them for an image, and only the one that leads has it.

Each listens for nodes with this relay, and at its own address with its pull proxy. Whoever holds the lease of `containers` opens the
tickets, so that is where every connection is passed on to: bytes, unread. The lease's row says who holds it, and where it is.
A connection that comes while nobody leads is closed, and the node's engine asks again.

Anybody who reaches a node's port reaches this. So a connection becomes one to the leader only once it has said a whole request's head; how
long it may take for that, how long it may be silent later and how many there are is bounded. Where there are too many, the one that has
said nothing for longest goes first: a node speaks at once.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import NoReturn, Self

import structlog

from moorage.entrypoints.copies_repository import holder_of
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.loop_thread import LoopThread

log = structlog.get_logger()

_LEASE = "containers"
_LOOK_EVERY_S = 1.0
_CONNECT_WITHIN_S = 5.0
_PIECE_BYTES = 1 << 18
_AT = " at "
_HEAD_ENDS = b"\r\n\r\n"
_TELL_EVERY_S = 60.0


@dataclass(frozen=True)
class RelayLimits:
    most_connections: int = 512
    """Of all together: behind a cluster's address translation one cannot be told from another."""
    head_within_s: float = 10.0
    idle_s: float = 60.0
    """Without a byte in either direction. It ends what a node or a leader that vanished left open."""


def holder_name(process: str, pull_peer: str | None) -> str:
    return process if pull_peer is None else f"{process}{_AT}{pull_peer}"


def peer_of(holder: str) -> tuple[str, int] | None:
    """Where a holder's pull proxy is, if it says so."""
    _, said, address = holder.partition(_AT)
    host, _, port = address.rpartition(":")
    return (host.strip("[]"), int(port)) if said and port.isdigit() else None


class PullRelay:
    def __init__(self, database: Database, host: str, port: int, limits: RelayLimits | None = None) -> None:
        self._database = database
        self._limits = limits or RelayLimits()
        self._host, self._port = host, port
        # Bytes of images make no reconciler wait.
        self._thread = LoopThread("pull-relay")
        self.leader: tuple[str, int] | None = None
        self._open = 0
        self._unheard: dict[asyncio.StreamWriter, None] = {}
        """Connections that have not said a head yet, in the order in which they came."""
        self._told_at_s: float | None = None

    async def __aenter__(self) -> Self:
        self._thread.start()
        self._server = await self._thread.run(asyncio.start_server(self._pass_on, self._host, self._port))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._thread.stop()

    async def follow_leader(self) -> NoReturn:
        """For good. Without the database the last one that is known stays."""
        while True:
            try:
                async with self._database.reading() as session:
                    found = await holder_of(session, _LEASE)
                self.leader = peer_of(found) if found is not None else None
            except Exception as exc:  # noqa: BLE001 - the database may be away for a moment
                log.warning("leader_not_known", error=repr(exc))
            await system_clock.sleep(_LOOK_EVERY_S)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.leader is None or not self._has_room():
            writer.close()
            return
        self._open += 1
        try:
            head = await self._head(reader, writer)
            await self._exchange(head, reader, writer)
        except* (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # either side ended it, or it took too long or said too much: the node's engine asks again
        finally:
            await _end(writer)
            self._open -= 1

    def _has_room(self) -> bool:
        """Or makes some."""
        if self._open < self._limits.most_connections:
            return True
        now_s = asyncio.get_running_loop().time()
        if self._told_at_s is None or now_s - self._told_at_s >= _TELL_EVERY_S:
            self._told_at_s = now_s
            log.warning("pull_relay_full", connections=self._open, unheard=len(self._unheard))
        if (oldest := next(iter(self._unheard), None)) is None:
            return False
        del self._unheard[oldest]
        oldest.transport.abort()
        return True

    async def _head(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """All of it, at most as much as a reader holds (64 KiB)."""
        self._unheard[writer] = None
        try:
            async with asyncio.timeout(self._limits.head_within_s):
                return await reader.readuntil(_HEAD_ENDS)
        finally:
            self._unheard.pop(writer, None)

    async def _exchange(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Until the leader ends it; then there is nothing more to be heard."""
        if self.leader is None:
            return  # by now nobody leads
        async with asyncio.timeout(_CONNECT_WITHIN_S):
            from_leader, to_leader = await asyncio.open_connection(*self.leader)
        idle_s, loop = self._limits.idle_s, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(idle_s) as idle, asyncio.TaskGroup() as group:

                def heard() -> None:
                    idle.reschedule(loop.time() + idle_s)

                to_leader.write(head)
                asking = group.create_task(_copy(reader, to_leader, heard))
                await _copy(from_leader, writer, heard)
                asking.cancel()
        finally:
            await _end(to_leader)


async def _copy(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, heard: Callable[[], None]
) -> None:
    while piece := await source.read(_PIECE_BYTES):
        heard()
        target.write(piece)
        await target.drain()
    if target.can_write_eof():
        target.write_eof()


async def _end(writer: asyncio.StreamWriter) -> None:
    """What was written still arrives, if somebody takes it."""
    try:
        async with asyncio.timeout(_CONNECT_WITHIN_S):
            writer.close()
            await writer.wait_closed()
    except OSError:
        writer.transport.abort()

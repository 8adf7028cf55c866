"""Where several controllers run, nodes ask any of them for an image, and only the one that leads has it.

Each listens for nodes with this relay, and at its own address with its pull proxy. Whoever holds the lease of `containers` opens the
tickets, so that is where every connection is passed on to: bytes, unread. The lease's row says who holds it, and where it is.
A connection that comes while nobody leads is closed, and the node's engine asks again.
"""

import asyncio
import contextlib
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


def holder_name(process: str, pull_peer: str | None) -> str:
    return process if pull_peer is None else f"{process}{_AT}{pull_peer}"


def peer_of(holder: str) -> tuple[str, int] | None:
    """Where a holder's pull proxy is, if it says so."""
    _, said, address = holder.partition(_AT)
    host, _, port = address.rpartition(":")
    return (host.strip("[]"), int(port)) if said and port.isdigit() else None


class PullRelay:
    def __init__(self, database: Database, host: str, port: int) -> None:
        self._database = database
        self._host, self._port = host, port
        # Bytes of images make no reconciler wait.
        self._thread = LoopThread("pull-relay")
        self.leader: tuple[str, int] | None = None

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
        with contextlib.suppress(OSError, TimeoutError):
            if self.leader is not None:
                async with asyncio.timeout(_CONNECT_WITHIN_S):
                    from_leader, to_leader = await asyncio.open_connection(*self.leader)
                try:
                    await asyncio.gather(_copy(reader, to_leader), _copy(from_leader, writer))
                finally:
                    to_leader.close()
        writer.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while piece := await source.read(_PIECE_BYTES):
        target.write(piece)
        await target.drain()
    if target.can_write_eof():
        target.write_eof()

"""A port on this machine's loopback that leads to Moorage's pull proxy, through the tunnel: Docker accepts plain HTTP on loopback
alone. It has a thread and an event loop of its own: an image's bytes make nobody's call wait."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

import structlog

from moorage.kit.loop_thread import LoopThread

log = structlog.get_logger()

LOOPBACK = "127.0.0.1"
_IDLE_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S = 10.0
_PART_BYTES = 65536


class Relay:
    def __init__(
        self, target: Callable[[], tuple[str, int]], *, idle_timeout_s: float = _IDLE_TIMEOUT_S
    ) -> None:
        """`target` is asked for each connection: an installation that moved to another host is elsewhere in the tunnel."""
        self._target = target
        self._idle_timeout_s = idle_timeout_s
        self._thread = LoopThread("pull-relay")

    async def __aenter__(self) -> Self:
        self._thread.start()
        self.port = await self._thread.run(self._start())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._thread.stop()

    async def _start(self) -> int:
        self._server = await asyncio.start_server(self._pass_on, LOOPBACK, 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._copy_both_ways(reader, writer)
        except (OSError, TimeoutError) as exc:
            # Docker asks again; what is wrong with an image is said by the proxy.
            log.info("relay_broken", error=type(exc).__name__)
        finally:
            await _end(writer)

    async def _copy_both_ways(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            far_reader, far_writer = await asyncio.open_connection(*self._target())
        try:
            async with asyncio.timeout(self._idle_timeout_s) as idle:
                ways = (
                    asyncio.ensure_future(self._copy(reader, far_writer, idle)),
                    asyncio.ensure_future(self._copy(far_reader, writer, idle)),
                )
                try:
                    # HTTP leaves neither side half open: the first end is the end.
                    done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    for way in done:
                        way.result()
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
        finally:
            await _end(far_writer)

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, idle: asyncio.Timeout
    ) -> None:
        loop = asyncio.get_running_loop()
        while part := await reader.read(_PART_BYTES):
            idle.reschedule(loop.time() + self._idle_timeout_s)
            writer.write(part)
            await writer.drain()


async def _end(writer: asyncio.StreamWriter) -> None:
    """What was written still arrives, if somebody takes it."""
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            writer.close()
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()

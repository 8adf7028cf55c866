"""A TCP stream that goes on until it is told to end, and that notices whatever is missing from it."""

import asyncio
import time
from dataclasses import dataclass, field

_BLOCK = 4096
_PAUSE_S = 0.01


async def serve_stream(port: int) -> asyncio.Server:
    """Numbers, one after the other, for as long as somebody reads."""

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = 0
        try:
            while True:
                writer.write(number.to_bytes(8, "big") * (_BLOCK // 8))
                await writer.drain()
                number += 1
                await asyncio.sleep(_PAUSE_S)
        except (OSError, asyncio.CancelledError):
            writer.close()

    return await asyncio.start_server(send, "0.0.0.0", port)


@dataclass
class Reading:
    blocks: int = 0
    longest_pause_s: float = 0.0
    broken: str | None = None
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, address: str, port: int) -> None:
        try:
            reader, _ = await asyncio.open_connection(address, port)
            last_s = time.monotonic()
            while True:
                block = await reader.readexactly(_BLOCK)
                assert block == self.blocks.to_bytes(8, "big") * (_BLOCK // 8), (
                    f"block {self.blocks} is another"
                )
                self.blocks += 1
                now_s = time.monotonic()
                self.longest_pause_s = max(self.longest_pause_s, now_s - last_s)
                last_s = now_s
                self._more.set()
        except (OSError, AssertionError, asyncio.IncompleteReadError) as exc:
            self.broken = repr(exc)
            self._more.set()

    async def goes_on(self, more: int = 20) -> None:
        """So many blocks have come since this was asked."""
        target = self.blocks + more
        while self.blocks < target:
            assert self.broken is None, self.broken
            self._more.clear()
            await self._more.wait()


async def start_reading(address: str, port: int) -> Reading:
    reading = Reading()
    # The place ends it.
    reading.task = asyncio.ensure_future(reading.run(address, port))  # type: ignore[attr-defined]
    await reading.goes_on()
    return reading

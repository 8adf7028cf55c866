"""Between the reading of a replica's output and its storing: bounded, and emptied in batches.

The reader waits while it is full, so a flood is held back at the engine and not in our memory.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass

from moorage.engines.base import LogChunk
from moorage.kit.errors import EngineError
from moorage.telemetry.logs.cursor import Cursor, LineAssembler, RawLine
from moorage.telemetry.logs.pace import Pace

BATCH_LINES = 2000
BATCH_BYTES = 1024 * 1024
FLUSH_AFTER_S = 0.25
HELD_BACK_S = 60.0
"""A reader that waits this long for room starts again from its cursor: an engine that changes its files under a
slow reader leaves lines out without a word, and only a new reading shows that they are gone."""


@dataclass(frozen=True)
class Batch:
    lines: list[RawLine]
    cursor: Cursor
    """Behind the last of the lines."""
    bytes: int


class LineBuffer:
    def __init__(self, assembler: LineAssembler, pace: Pace) -> None:
        self._assembler = assembler
        self._pace = pace
        self._lines: list[RawLine] = []
        self._bytes = 0
        self._ended = False
        self._failure: EngineError | None = None
        self._something = asyncio.Event()
        self._take_now = asyncio.Event()
        self._room = asyncio.Event()

    async def fill(
        self,
        bundles: AsyncIterator[Sequence[LogChunk]],
        *,
        process_ended: bool,
        engine_was_away: bool = False,
    ) -> None:
        """Read to the end. A stream that breaks off is an end too: what it gave first is stored first.

        Only of a process that had ended before is what lacks a line end a line; and there is no pace to keep, because
        what it left has an end and somebody waits for it.
        """
        try:
            async for chunks in bundles:
                # No await between these two: the assembler's cursor counts the lines as given out already.
                self._add(self._assembler.feed(chunks))
                if self._is_full():
                    await self._wait_for_room()
                if not process_ended:
                    await self._pace.keep(self._assembler.take_dropped_cost(), chunks[-1].time_ns)
            if process_ended:
                self._add(self._assembler.end(engine_was_away=engine_was_away))
        except EngineError as exc:
            self._failure = exc
        finally:
            self._ended = True
            self._something.set()
            self._take_now.set()
            if isinstance(bundles, AsyncGenerator):
                await bundles.aclose()

    async def batches(self) -> AsyncIterator[Batch]:
        """Until the stream has ended and all is taken; raises what broke it."""
        while True:
            await self._something.wait()
            # A moment for more to come; at the end, and when it is full, at once.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH_AFTER_S):
                    await self._take_now.wait()
            batch, ended = self._take(), self._ended
            if batch.lines:
                yield batch
            if ended:
                break
        if self._failure is not None:
            raise self._failure

    def _add(self, lines: list[RawLine]) -> None:
        if lines:
            self._lines += lines
            self._bytes += sum([len(line.head) for line in lines])
            self._something.set()

    def _is_full(self) -> bool:
        return len(self._lines) >= BATCH_LINES or self._bytes >= BATCH_BYTES

    async def _wait_for_room(self) -> None:
        try:
            async with asyncio.timeout(HELD_BACK_S):
                while self._is_full():
                    self._room.clear()
                    self._take_now.set()
                    await self._room.wait()
        except TimeoutError as exc:
            raise EngineError("lines come faster than they are stored") from exc

    def _take(self) -> Batch:
        if self._lines:
            self._add(self._assembler.tell_dropped())
            batch = Batch(self._lines, self._assembler.cursor(), self._bytes)
        else:
            batch = Batch([], Cursor(), 0)
        self._lines, self._bytes = [], 0
        if not self._ended:
            self._something.clear()
            self._take_now.clear()
        self._room.set()
        return batch

"""A replica's output from another machine, over as many connections as it takes.

What was given is known by time and stream (`LogPosition`): a stream that was cut, in the middle of a frame or between two, is
asked for again from there, and what comes a second time is passed over. It is given up where several connections in a row
brought nothing: then whoever listens goes on from a cursor of their own. So it is where only the last pieces were wanted and some
came: which of several at the same time the first of them was, nobody can tell any more.

How much is kept of it is decided by the times of the lines themselves, and those are the machine's. So it is read at a pace of
ours as well, which no replica's output needs.
"""

import asyncio
import copy
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from moorage.engines.base import LogChunk
from moorage.engines.docker.logs import LogPosition
from moorage.engines.remote.claims import MOST_CLOCK_ERROR_S
from moorage.engines.remote.codec import to_bytes
from moorage.engines.remote.connection import AWAY, TIMED_OUT, MachineConnection
from moorage.engines.remote.frames import CHUNKS_AT_A_TIME, FrameKind, unpack_chunks
from moorage.engines.remote.messages import open_envelope
from moorage.engines.remote.pace import Pace
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError

_MOST_VAIN_ATTEMPTS = 4
_FIRST_PAUSE_S = 0.1
_CONNECTIONS_PER_S, _CONNECTIONS_AT_ONCE = 1.0, 30.0
"""Of one output: a machine may break each off after a piece that is new."""
_NANOSECONDS = 1_000_000_000
_CHUNKS_PER_S, _CHUNKS_AT_ONCE = 10_000.0, 200_000.0
"""For long, as many as are kept and dropped of a flood (`telemetry/logs`); at once, what an engine has kept while nobody read. One
of more than 1 KiB counts as several."""


class _CutError(Exception):
    """The stream ended before its end."""

    def __init__(self, error: EngineError) -> None:
        self.error = error


@dataclass(frozen=True)
class Output:
    connection: MachineConnection
    clock: Clock
    engine_id: str
    """The machine's own."""

    async def read(self, since_ns: int, last: int | None) -> AsyncIterator[Sequence[LogChunk]]:
        position = None
        pace = Pace(self.clock, _CHUNKS_PER_S, _CHUNKS_AT_ONCE)
        connections = Pace(self.clock, _CONNECTIONS_PER_S, _CONNECTIONS_AT_ONCE)
        vain_attempts, pause_s = 0, _FIRST_PAUSE_S
        while True:
            await connections.take()
            taken = copy.deepcopy(position)
            from_ns = since_ns if taken is None else taken.resume_at_ns()
            try:
                async with aclosing(self._once(from_ns, last)) as bundles:
                    async for chunks in bundles:
                        await pace.take(len(chunks) + sum(len(one.data) for one in chunks) // 1024)
                        new = chunks if taken is None else [one for one in chunks if taken.is_new(one)]
                        if not new:
                            continue
                        position = position or LogPosition(since_ns)
                        position.advance(new)
                        vain_attempts, pause_s = 0, _FIRST_PAUSE_S
                        yield new
                return
            except _CutError as cut:
                vain_attempts += 1
                if vain_attempts > _MOST_VAIN_ATTEMPTS or (last is not None and position is not None):
                    raise cut.error from None
            await self.clock.sleep(pause_s)
            pause_s *= 2

    async def _once(self, since_ns: int, last: int | None) -> AsyncGenerator[list[LogChunk], None]:
        arguments = {"engine_id": self.engine_id, "since_ns": since_ns, "last": last}
        try:
            async with aclosing(self.connection.frames("logs", to_bytes(arguments))) as bundles:
                async for frames in bundles:
                    together: list[LogChunk] = []
                    for kind, payload in frames:
                        if kind is FrameKind.CHUNKS:
                            for chunks in self._chunks(payload):
                                together += chunks
                                if len(together) >= CHUNKS_AT_A_TIME:
                                    yield together
                                    together = []
                                    await asyncio.sleep(0)  # Others have their turn in between.
                        elif kind is FrameKind.ANSWER:
                            if together:
                                yield together
                            self._end(payload)
                            return
                    if together:
                        yield together
        except EngineError as exc:
            if exc.code in (AWAY, TIMED_OUT):
                raise _CutError(exc) from exc
            raise
        raise _CutError(EngineError("logs: the machine's output broke off", code=AWAY))

    def _chunks(self, payload: bytes) -> Iterator[list[LogChunk]]:
        latest_s = self.clock.now().timestamp() + MOST_CLOCK_ERROR_S
        with self.connection.failing_in_words("logs"):
            yield from unpack_chunks(payload, int(latest_s * _NANOSECONDS))

    def _end(self, payload: bytes) -> None:
        """Raises what the machine's engine raised."""
        with self.connection.failing_in_words("logs"):
            open_envelope(payload, type(None))

"""Log streams of a stand-in engine: Docker's bytes without dockerd, taken apart by our own parser."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from moorage.engines.base import LogChunk, ObservedReplica, ReplicaPhase
from moorage.engines.docker.logs import FrameParser
from moorage.kit.ids import ContainerId, ReplicaId

PIECE_BYTES = 32 * 1024
"""What dockerd writes at once when it has a backlog."""
_TEXT = 'INFO:     10.0.3.17:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK  prompt=812 completion=164 '


def frames(count: int, first: int, begin_ns: int, apart_ns: int) -> bytes:
    """So many lines of about 120 characters as dockerd sends them; every tenth to stderr."""
    parts = []
    for number in range(first, first + count):
        seconds, nanoseconds = divmod(begin_ns + number * apart_ns, 1_000_000_000)
        stamp = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        payload = f"{stamp}.{nanoseconds:09d}Z {_TEXT}line {number}\n".encode()
        parts.append(
            bytes([2 if number % 10 == 9 else 1, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload
        )
    return b"".join(parts)


@dataclass
class Replica:
    replica_id: ReplicaId
    pieces: list[bytes] = field(default_factory=list)
    newest: int = 0
    """The piece with which the last output began."""
    printed_bytes: int = 0
    read: int = 0
    """How many pieces the furthest reader has had."""
    _printed: asyncio.Event = field(default_factory=asyncio.Event)

    def prints(self, data: bytes) -> None:
        self.printed_bytes += len(data)
        self.newest = len(self.pieces)
        self.pieces += [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]
        self._printed.set()

    async def follow(self, at: int = 0) -> AsyncIterator[bytes]:
        """From a piece on; never ends."""
        while True:
            self._printed.clear()
            while at < len(self.pieces):
                at += 1
                self.read = max(self.read, at)
                yield self.pieces[at - 1]
            await self._printed.wait()


class StandInEngine:
    """The parts of `Engine` that the collector asks."""

    def __init__(self, replicas: dict[str, Replica]) -> None:
        self._replicas = replicas
        """By engine id."""

    async def inspect(self, replica_id: ReplicaId) -> ObservedReplica | None:
        engine_id, replica = next(
            (engine_id, one) for engine_id, one in self._replicas.items() if one.replica_id == replica_id
        )
        where = ("127.0.0.1", 1, None, None)
        return ObservedReplica(
            replica.replica_id, ContainerId(""), 0, 1, engine_id, ReplicaPhase.RUNNING, *where, None, False
        )

    async def logs(
        self, engine_id: str, since_ns: int, last: int | None = None
    ) -> AsyncIterator[Sequence[LogChunk]]:
        parser, replica = FrameParser(), self._replicas[engine_id]
        async for data in replica.follow(replica.newest if last is not None else 0):
            chunks = parser.feed(data)
            if chunks and chunks[0].time_ns < since_ns:
                chunks = [chunk for chunk in chunks if chunk.time_ns >= since_ns]
            if chunks:
                yield chunks
            await asyncio.sleep(0)  # as a socket would, between two reads


EVERY_S = 0.1


def steady_output(replicas: int, lines_per_s: int, seconds: float) -> list[bytes]:
    """What one of so many replicas prints every 100 ms, for all of them to print so many lines a second together."""
    each = round(lines_per_s * EVERY_S / replicas)
    begin_ns, apart_ns = time.time_ns(), round(EVERY_S * 1e9 / each)
    return [frames(each, number * each, begin_ns, apart_ns) for number in range(round(seconds / EVERY_S))]


async def print_steadily(replicas: Sequence[Replica], output: Sequence[bytes]) -> None:
    began_s = time.monotonic()
    for number, data in enumerate(output):
        await asyncio.sleep(max(0.0, began_s + number * EVERY_S - time.monotonic()))
        for replica in replicas:
            replica.prints(data)

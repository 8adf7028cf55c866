"""From an engine's chunks to whole lines, and where to go on after a break. Pure.

A cursor says, for each stream, up to which chunk whole lines have been taken: the time of the last chunk and
how many chunks of exactly that time. Reading goes on *inclusively* at `since_ns` and skips what was taken, so
equal times are neither lost nor doubled.

A line that is still open has not been taken: the cursor stays before its first chunk, and the next reader
gets the line from its beginning. The streams have a position each, because within one stream times only grow
while one stream's chunk can arrive after a later one of the other, and an open line of one must not hold
back the other. (If the machine's clock is set back, and the reader breaks just then, lines are doubled rather
than lost.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from moorage.engines.base import LogChunk, LogStream

STREAMS_APART_NS = 10 * 1_000_000_000
"""How much later than its time a chunk can arrive, seen from the other stream. A stream that has been silent
for a day must not make the next reader ask for a day of the other."""


@dataclass(frozen=True)
class StreamPosition:
    """Behind the last whole line of one stream."""

    time_ns: int = 0
    chunks: int = 0
    """How many chunks of exactly this time were taken."""

    def after(self, time_ns: int) -> "StreamPosition":
        return StreamPosition(time_ns, self.chunks + 1 if time_ns == self.time_ns else 1)


@dataclass(frozen=True)
class Cursor:
    since_ns: int = 0
    """Where the engine has to start again; never behind the beginning of an open line."""
    positions: Mapping[LogStream, StreamPosition] = field(
        default_factory=lambda: {stream: StreamPosition() for stream in LogStream}
    )
    next_sequence: int = 0


@dataclass(frozen=True)
class RawLine:
    """A whole line, as it was printed."""

    sequence: int
    time_ns: int
    """Of its first chunk."""
    stream: LogStream
    head: bytes
    """Without NUL; no more than the assembler's limit."""
    total_bytes: int


class LineAssembler:
    """Joins the chunks of a line. Holds at most `head_limit_bytes` of one line for each stream."""

    def __init__(self, cursor: Cursor, head_limit_bytes: int) -> None:
        self._head_limit_bytes = head_limit_bytes
        self._resumed_from = cursor
        self._next_sequence = cursor.next_sequence
        self._streams = {stream: _Stream(cursor.positions[stream]) for stream in LogStream}

    def feed(self, chunk: LogChunk) -> RawLine | None:
        """The line that this chunk ends, if it does."""
        stream = self._streams[chunk.stream]
        if stream.was_taken(chunk):
            return None
        stream.seen = stream.seen.after(chunk.time_ns)
        if stream.open_line is None:
            stream.open_line = _OpenLine(chunk.time_ns)
        stream.open_line.add(chunk.data, self._head_limit_bytes)
        return self._close(chunk.stream) if chunk.ends_line else None

    def end(self) -> list[RawLine]:
        """The process has ended: what it left without a line end are lines too."""
        return [self._close(name) for name, stream in self._streams.items() if stream.open_line is not None]

    def cursor(self) -> Cursor:
        """Behind every line that was returned so far.

        Before the first one, the engine may not have come again to a line that was open at the break; from it
        on it has, because what is new comes after all that was given before.
        """
        if self._next_sequence == self._resumed_from.next_sequence:
            return self._resumed_from
        return Cursor(
            min(self._needed_from_ns(stream) for stream in self._streams.values()),
            {name: stream.taken for name, stream in self._streams.items()},
            self._next_sequence,
        )

    def _needed_from_ns(self, stream: "_Stream") -> int:
        latest_ns = max(other.taken.time_ns for other in self._streams.values())
        closed_from_ns = max(stream.taken.time_ns, latest_ns - STREAMS_APART_NS)
        return closed_from_ns if stream.open_line is None else min(closed_from_ns, stream.open_line.time_ns)

    def _close(self, name: LogStream) -> RawLine:
        stream = self._streams[name]
        line = stream.open_line
        assert line is not None, "only an open line is closed"
        stream.open_line = None
        stream.taken = stream.seen
        sequence = self._next_sequence
        self._next_sequence += 1
        return RawLine(sequence, line.time_ns, name, bytes(line.head), line.total_bytes)


@dataclass
class _OpenLine:
    time_ns: int
    head: bytearray = field(default_factory=bytearray)
    total_bytes: int = 0

    def add(self, data: bytes, head_limit_bytes: int) -> None:
        data = data.replace(b"\x00", b"")
        self.total_bytes += len(data)
        self.head += data[: head_limit_bytes - len(self.head)]


class _Stream:
    def __init__(self, resume_after: StreamPosition) -> None:
        self.taken = resume_after
        self.seen = resume_after
        """Like `taken`, with the chunks of the open line."""
        self.open_line: _OpenLine | None = None
        self._to_skip: StreamPosition | None = resume_after
        self._skipped_chunks = 0

    def was_taken(self, chunk: LogChunk) -> bool:
        """Whether an earlier reader took this chunk. After the first one that it did not, none was."""
        if self._to_skip is None:
            return False
        if chunk.time_ns < self._to_skip.time_ns:
            return True
        if chunk.time_ns == self._to_skip.time_ns and self._skipped_chunks < self._to_skip.chunks:
            self._skipped_chunks += 1
            return True
        self._to_skip = None
        return False

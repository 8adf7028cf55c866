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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moorage.engines.base import LogChunk, LogStream
from moorage.telemetry.logs.allowance import Allowance

STREAMS_APART_NS = 10 * 1_000_000_000
"""How much later than its time a chunk can arrive, seen from the other stream. A stream that has been silent
for a day must not make the next reader ask for a day of the other."""

DROPPED = b"%d lines dropped here: this replica printed more than is kept"
ENGINE_AWAY = b"This replica ended while the engine was away; what it printed last may be missing"
FORGOTTEN = b"Lines may be missing here: the engine did not keep them long enough"


@dataclass(frozen=True)
class StreamPosition:
    """Behind the last whole line of one stream."""

    time_ns: int = 0
    chunks: int = 0
    """How many chunks of exactly this time were taken."""


@dataclass(frozen=True)
class Cursor:
    since_ns: int = 0
    """Where the engine has to start again; never behind the beginning of an open line."""
    positions: Mapping[LogStream, StreamPosition] = field(
        default_factory=lambda: {stream: StreamPosition() for stream in LogStream}
    )
    next_sequence: int = 0


class RawLine(NamedTuple):
    """A whole line, as it was printed; or a word of ours about lines that are missing."""

    sequence: int
    time_ns: int
    """Of its first chunk."""
    stream: LogStream | None
    """None: our word."""
    head: bytes
    """Without NUL; no more than the assembler's limit."""
    total_bytes: int


class LineAssembler:
    """Joins the chunks of a line. Holds at most `head_limit_bytes` of one line for each stream.

    Whatever is missing from the lines that it returns is said in a line of its own: how many were dropped because
    the allowance was used up, and where the engine had forgotten what came after the cursor.
    """

    def __init__(self, cursor: Cursor, head_limit_bytes: int, allowance: Allowance) -> None:
        self._head_limit_bytes = head_limit_bytes
        self._allowance = allowance
        self._resumed_from = cursor
        self._next_sequence = cursor.next_sequence
        self._streams = {stream: _Stream(cursor.positions[stream], cursor.since_ns) for stream in LogStream}
        self._dropped = 0
        self._last_dropped_ns = 0
        self._dropped_cost = 0

    def feed(self, chunks: Sequence[LogChunk]) -> list[RawLine]:
        """The lines that end in these chunks."""
        if self._are_plain(chunks):
            return self._feed_plain(chunks)
        lines: list[RawLine] = []
        limit = self._head_limit_bytes
        for chunk in chunks:
            time_ns, name, data, ends_line = chunk
            stream = self._streams[name]
            if stream.to_skip is not None:
                if stream.was_taken(time_ns):
                    continue
                if stream.misses_something:
                    lines.append(self._our_line(time_ns, FORGOTTEN))
            if time_ns == stream.seen_ns:
                stream.seen_chunks += 1
            else:
                stream.seen_ns, stream.seen_chunks = time_ns, 1
            if b"\x00" in data:
                data = data.replace(b"\x00", b"")
            if ends_line and stream.open_line is None:
                self._close(lines, stream, time_ns, name, data[:limit], len(data))
                continue
            if stream.open_line is None:
                stream.open_line = _OpenLine(time_ns)
            stream.open_line.add(data, limit)
            if ends_line:
                self._close_open(lines, stream, name)
        return lines

    def _are_plain(self, chunks: Sequence[LogChunk]) -> bool:
        """Whether each chunk is a line that is to be kept: nearly always, and then there is little to do."""
        for stream in self._streams.values():
            if stream.to_skip is not None or stream.open_line is not None:
                return False
        data = [chunk[2] for chunk in chunks]
        joined = b"".join(data)
        return (
            not self._dropped
            and all(chunk[3] for chunk in chunks)
            and len(max(data, key=len)) <= self._head_limit_bytes
            and b"\x00" not in joined
            and self._allowance.take_all(chunks[0].time_ns, len(chunks), len(joined))
        )

    def _feed_plain(self, chunks: Sequence[LogChunk]) -> list[RawLine]:
        lines = []
        for sequence, (time_ns, name, data, _) in enumerate(chunks, self._next_sequence):
            stream = self._streams[name]
            if time_ns == stream.seen_ns:
                stream.seen_chunks += 1
            else:
                stream.seen_ns, stream.seen_chunks = time_ns, 1
            lines.append(RawLine(sequence, time_ns, name, data, len(data)))
        self._next_sequence += len(lines)
        for stream in self._streams.values():
            stream.taken_ns, stream.taken_chunks = stream.seen_ns, stream.seen_chunks
        return lines

    def end(self, *, engine_was_away: bool = False) -> list[RawLine]:
        """The process has ended: what it left without a line end are lines too."""
        lines: list[RawLine] = []
        for name, stream in self._streams.items():
            if stream.open_line is not None:
                self._close_open(lines, stream, name)
        lines += self.tell_dropped()
        if engine_was_away:
            last_ns = max(stream.seen_ns for stream in self._streams.values())
            lines.append(self._our_line(last_ns, ENGINE_AWAY))
        return lines

    def tell_dropped(self) -> list[RawLine]:
        """A line that says how many were dropped, if any were. To be asked for before `cursor`, which is behind
        those as well."""
        if not self._dropped:
            return []
        dropped, self._dropped = self._dropped, 0
        return [self._our_line(self._last_dropped_ns, DROPPED % dropped)]

    def take_dropped_cost(self) -> int:
        """How many lines were dropped since this was last asked; one of more than 1 KiB counts as several."""
        cost, self._dropped_cost = self._dropped_cost, 0
        return cost

    def cursor(self) -> Cursor:
        """Behind every line that was returned so far.

        Before the first one, the engine may not have come again to a line that was open at the break; from it
        on it has, because what is new comes after all that was given before.
        """
        assert not self._dropped, "lines that were dropped are told of before the cursor goes past them"
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

    def _close_open(self, lines: list[RawLine], stream: "_Stream", name: LogStream) -> None:
        line = stream.open_line
        assert line is not None, "only an open line is closed"
        stream.open_line = None
        self._close(lines, stream, line.time_ns, name, bytes(line.head), line.total_bytes)

    def _close(
        self,
        lines: list[RawLine],
        stream: "_Stream",
        time_ns: int,
        name: LogStream,
        head: bytes,
        total_bytes: int,
    ) -> None:
        stream.taken_ns, stream.taken_chunks = stream.seen_ns, stream.seen_chunks
        if not self._allowance.take(time_ns, total_bytes):
            self._dropped += 1
            self._dropped_cost += 1 + total_bytes // 1024
            self._last_dropped_ns = time_ns
            return
        if self._dropped:
            lines += self.tell_dropped()
        sequence = self._next_sequence
        self._next_sequence = sequence + 1
        lines.append(RawLine(sequence, time_ns, name, head, total_bytes))

    def _our_line(self, time_ns: int, text: bytes) -> RawLine:
        sequence = self._next_sequence
        self._next_sequence = sequence + 1
        return RawLine(sequence, time_ns, None, text, len(text))


class _OpenLine:
    __slots__ = ("head", "time_ns", "total_bytes")

    def __init__(self, time_ns: int) -> None:
        self.time_ns = time_ns
        self.head = bytearray()
        self.total_bytes = 0

    def add(self, data: bytes, head_limit_bytes: int) -> None:
        self.total_bytes += len(data)
        self.head += data[: head_limit_bytes - len(self.head)]


class _Stream:
    """Positions as plain numbers, because they move with every chunk."""

    def __init__(self, resume_after: StreamPosition, since_ns: int) -> None:
        self.taken_ns, self.taken_chunks = resume_after.time_ns, resume_after.chunks
        self.seen_ns, self.seen_chunks = resume_after.time_ns, resume_after.chunks
        """Like what is taken, with the chunks of the open line."""
        self.open_line: _OpenLine | None = None
        self.to_skip: StreamPosition | None = resume_after
        self._skipped_chunks = 0
        # A stream that was silent for long is not read again from its last chunk on.
        self._is_given_again = resume_after.chunks > 0 and resume_after.time_ns >= since_ns
        self.misses_something = False

    @property
    def taken(self) -> StreamPosition:
        return StreamPosition(self.taken_ns, self.taken_chunks)

    def was_taken(self, time_ns: int) -> bool:
        """Whether an earlier reader took this chunk. After the first one that it did not, none was."""
        skip = self.to_skip
        assert skip is not None, "nothing is asked after the first new chunk"
        if time_ns < skip.time_ns:
            return True
        if time_ns == skip.time_ns and self._skipped_chunks < skip.chunks:
            self._skipped_chunks += 1
            return True
        self.to_skip = None
        # Reading begins with the last chunk that was taken. An engine that does not have it any longer may have
        # lost more with it.
        self.misses_something = self._is_given_again and self._skipped_chunks < skip.chunks
        return False

"""A replica's output, read frame by frame from Docker's log stream.

    stream id 1 | zero 3 | length 4, big-endian | "2026-01-02T03:04:05.000000006Z " data

Docker cuts lines at 16 KiB. All parts of one line carry the time of its first part. The `local` log driver
gives the last part of a cut line no newline, so a part ends its line if it ends with a newline *or* is not
full; the last output of a process needs no newline either and is never full.
"""

from calendar import timegm
from collections.abc import AsyncIterator, Sequence
from struct import Struct
from time import strptime

from aiodocker.exceptions import DockerError

from moorage.engines.base import LogChunk, LogStream
from moorage.engines.docker.connection import DockerConnection
from moorage.kit.errors import EngineError

PART_BYTES = 16 * 1024
_HEADER = Struct(">B3xI")
_HEADER_BYTES = _HEADER.size
_SECOND_BYTES = len("2026-01-02T03:04:05")
_FRACTION_DIGITS = 9
_LINE_END = ord("\n")
_MAX_FRAME_BYTES = 1024 * 1024
_BROKEN_OFF = 3
"""The engine's own words about why it cannot go on: in the moment in which it exchanges its files it misreads them
under a reader that has not kept up. Whoever reads again finds them whole."""
_STREAMS = {1: LogStream.STDOUT, 2: LogStream.STDERR}
_NANOSECONDS = 1_000_000_000
_SILENT_STREAM_OVERLAP_NS = 10 * _NANOSECONDS


class LogPosition:
    """How far a log has been read: for each stream the last time, and how many parts had that time."""

    def __init__(self, since_ns: int) -> None:
        self._since_ns = since_ns
        self._last: dict[LogStream, list[int]] = {}
        self._met: dict[LogStream, int] = {}

    def advance(self, chunks: Sequence[LogChunk]) -> None:
        last = self._last
        for time_ns, stream, _, _ in chunks:
            if stream in last and last[stream][0] == time_ns:
                last[stream][1] += 1
            else:
                last[stream] = [time_ns, 1]

    def resume_at_ns(self) -> int:
        """Inclusive. A stream that said nothing so far may still have said something just before the end."""
        if not self._last:
            return self._since_ns
        times_ns = [time_ns for time_ns, _ in self._last.values()]
        if len(times_ns) < len(LogStream):
            times_ns.append(max(times_ns) - _SILENT_STREAM_OVERLAP_NS)
        return max(self._since_ns, min(times_ns))

    def is_new(self, chunk: LogChunk) -> bool:
        """Asked once for each chunk of a second reading, in order."""
        time_ns, count = self._last.get(chunk.stream, (0, 0))
        if chunk.time_ns != time_ns:
            return chunk.time_ns > time_ns
        self._met[chunk.stream] = self._met.get(chunk.stream, 0) + 1
        return self._met[chunk.stream] > count


async def read_logs(
    connection: DockerConnection, engine_id: str, since_ns: int, *, follow: bool, last: int | None = None
) -> AsyncIterator[Sequence[LogChunk]]:
    """With `last`, only so many chunks from the end."""
    what = f"read the log of {engine_id[:12]}"
    parameters = {"follow": "1" if follow else "0", "stdout": "1", "stderr": "1", "timestamps": "1"}
    if last is not None:
        parameters["tail"] = str(last)
    if since_ns > 0:
        parameters["since"] = f"{since_ns // _NANOSECONDS}.{since_ns % _NANOSECONDS:09d}"
    try:
        async with connection.stream(
            what, "GET", f"containers/{engine_id}/logs", parameters=parameters
        ) as content:
            frames = FrameParser()
            async for data in content.iter_any():
                if chunks := frames.feed(data):
                    yield chunks
            if frames.is_inside_a_frame:
                raise EngineError(f"{what}: the connection to the Docker engine broke inside a line")
    except DockerError as exc:
        raise EngineError(f"{what}: {exc.message}") from exc


class FrameParser:
    """From bytes as they arrive to whole frames. All of what came together is taken apart in one go: an await
    for each header and each payload would cost more than everything else that is done to a line."""

    def __init__(self) -> None:
        self._rest = b""
        self._second = b""
        self._second_ns = 0

    @property
    def is_inside_a_frame(self) -> bool:
        return bool(self._rest)

    def feed(self, data: bytes) -> list[LogChunk]:
        if self._rest:
            data = self._rest + data
        chunks, at, end = [], 0, len(data)
        # One loop without calls of our own: what stands here is done for every line of every container.
        while (start := at + _HEADER_BYTES) <= end:
            stream_id, length = _HEADER.unpack_from(data, at)
            stop = start + length
            if stop > end:
                if length > _MAX_FRAME_BYTES:
                    raise EngineError(f"the Docker engine announced a log frame of {length} bytes")
                break
            if stream_id == _BROKEN_OFF:
                raise EngineError(
                    f"the Docker engine broke off: {data[start:stop].decode(errors='replace').strip()}"
                )
            space = data.find(b" ", start, stop)
            if space < 0 or stream_id not in _STREAMS:
                raise EngineError("the Docker engine sent a log frame that cannot be read")
            second = data[start : start + _SECOND_BYTES]
            if second != self._second:
                self._second_ns, self._second = _seconds(second) * _NANOSECONDS, second
            fraction = data[start + _SECOND_BYTES + 1 : space - 1]
            if len(fraction) != _FRACTION_DIGITS or not fraction.isdigit():
                fraction = _whole_fraction(fraction)
            ended = data[stop - 1] == _LINE_END
            chunks.append(
                LogChunk(
                    self._second_ns + int(fraction),
                    _STREAMS[stream_id],
                    data[space + 1 : stop - ended],
                    ended or stop - space <= PART_BYTES,
                )
            )
            at = stop
        self._rest = data[at:]
        return chunks


def _whole_fraction(digits: bytes) -> bytes:
    """Of a second, in nanoseconds: zeros at the end may be missing."""
    if len(digits) > _FRACTION_DIGITS or not (digits.isdigit() or not digits):
        raise EngineError("the Docker engine sent a log line without a time")
    return digits.ljust(_FRACTION_DIGITS, b"0")


def _seconds(text: bytes) -> int:
    try:
        return timegm(strptime(text.decode("ascii"), "%Y-%m-%dT%H:%M:%S"))
    except ValueError as exc:
        raise EngineError("the Docker engine sent a log line without a time") from exc

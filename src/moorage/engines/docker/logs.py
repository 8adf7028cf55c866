"""A replica's output, read frame by frame from Docker's log stream.

    stream id 1 | zero 3 | length 4, big-endian | "2026-01-02T03:04:05.000000006Z " data

Docker cuts lines at 16 KiB. All parts of one line carry the time of its first part. The `local` log driver
gives the last part of a cut line no newline, so a part ends its line if it ends with a newline *or* is not
full; the last output of a process needs no newline either and is never full.
"""

import asyncio
from calendar import timegm
from collections.abc import AsyncIterator
from functools import lru_cache
from time import strptime

from aiodocker.exceptions import DockerError
from aiohttp import StreamReader

from moorage.engines.base import LogChunk, LogStream
from moorage.engines.docker.connection import DockerConnection
from moorage.kit.errors import EngineError

PART_BYTES = 16 * 1024
_HEADER_BYTES = 8
_MAX_FRAME_BYTES = 1024 * 1024
_STREAMS = {1: LogStream.STDOUT, 2: LogStream.STDERR}
_NANOSECONDS = 1_000_000_000
_SILENT_STREAM_OVERLAP_NS = 10 * _NANOSECONDS


class LogPosition:
    """How far a log has been read: for each stream the last time, and how many parts had that time."""

    def __init__(self, since_ns: int) -> None:
        self._since_ns = since_ns
        self._last: dict[LogStream, tuple[int, int]] = {}
        self._met: dict[LogStream, int] = {}

    def advance(self, chunk: LogChunk) -> None:
        time_ns, count = self._last.get(chunk.stream, (0, 0))
        self._last[chunk.stream] = (chunk.time_ns, count + 1 if chunk.time_ns == time_ns else 1)

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
) -> AsyncIterator[LogChunk]:
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
            while (frame := await _next_frame(content)) is not None:
                yield parse_frame(*frame)
    except DockerError as exc:
        raise EngineError(f"{what}: {exc.message}") from exc


def parse_frame(stream_id: int, payload: bytes) -> LogChunk:
    time, separator, data = payload.partition(b" ")
    if stream_id not in _STREAMS or not separator:
        raise EngineError("the Docker engine sent a log frame that cannot be read")
    ends_line = data.endswith(b"\n") or len(data) < PART_BYTES
    return LogChunk(_time_ns(time), _STREAMS[stream_id], data.removesuffix(b"\n"), ends_line)


async def _next_frame(content: StreamReader) -> tuple[int, bytes] | None:
    """None at a clean end, between two frames. Anything else that ends early raises."""
    try:
        header = await content.readexactly(_HEADER_BYTES)
    except asyncio.IncompleteReadError as exc:
        if exc.partial:
            raise
        return None
    length = int.from_bytes(header[4:], "big")
    if length > _MAX_FRAME_BYTES:
        raise EngineError(f"the Docker engine announced a log frame of {length} bytes")
    return header[0], await content.readexactly(length)


def _time_ns(text: bytes) -> int:
    whole, _, fraction = text.decode("ascii", "replace").removesuffix("Z").partition(".")
    return _seconds(whole) * _NANOSECONDS + int(f"{fraction:0<9}")


@lru_cache(maxsize=64)
def _seconds(text: str) -> int:
    """Cached: thousands of lines share a second, and parsing a date is most of the work on a line."""
    try:
        return timegm(strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError as exc:
        raise EngineError("the Docker engine sent a log line without a time") from exc

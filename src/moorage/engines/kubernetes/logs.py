"""A replica's output, read through the API server: whole lines, each with its time.

    2026-01-02T03:04:05.000000006Z what it said

The API does not tell standard error from standard output: everything is the one. Long lines are cut as on Docker, always at the
same places, so that whoever reads again finds the same parts.
"""

from calendar import timegm
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from time import strptime

from moorage.engines.base import LogChunk, LogStream
from moorage.engines.kubernetes.connection import ApiServer
from moorage.engines.kubernetes.names import MAIN, PodKey
from moorage.kit.errors import EngineError

PART_BYTES = 16 * 1024
_SECOND_BYTES = len("2026-01-02T03:04:05")
_FRACTION_DIGITS = 9
_NANOSECONDS = 1_000_000_000


class LogPosition:
    """How far a log has been read: the last time, and how many parts had that time."""

    def __init__(self, since_ns: int) -> None:
        self.at_ns = since_ns
        self._given = 0
        self._met = 0

    def advance(self, chunks: Sequence[LogChunk]) -> None:
        for chunk in chunks:
            if chunk.time_ns == self.at_ns:
                self._given += 1
            else:
                self.at_ns, self._given = chunk.time_ns, 1

    def is_new(self, chunk: LogChunk) -> bool:
        """Asked once for each chunk of a second reading, in order."""
        if chunk.time_ns != self.at_ns:
            return chunk.time_ns > self.at_ns
        self._met += 1
        return self._met > self._given


async def read_log(
    api: ApiServer, pod: PodKey, since_ns: int, *, follow: bool, last: int | None = None
) -> AsyncIterator[list[LogChunk]]:
    """Raises `ApiError` where there is no log, `EngineError` where the connection breaks."""
    what = f"read the log of {pod.name}"
    query = {"container": MAIN, "timestamps": "true", "follow": "true" if follow else "false"}
    if last is not None:
        query["tailLines"] = str(last)
    if since_ns > 0:
        # Whole seconds are all that is understood; the rest is left out here.
        query["sinceTime"] = datetime.fromtimestamp(since_ns // _NANOSECONDS, UTC).strftime(
            "%Y-%m-%dT%H:%M:%SZ"
        )
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/log"
    parser = LineParser()
    async with api.stream(what, path, query, None) as content:
        async for data in content.iter_any():
            if chunks := [one for one in parser.feed(data) if one.time_ns >= since_ns]:
                yield chunks
        if chunks := [one for one in parser.end() if one.time_ns >= since_ns]:
            yield chunks


class LineParser:
    """From bytes as they arrive to parts of lines."""

    def __init__(self) -> None:
        self._rest = b""
        self._time_ns: int | None = None
        """Of the line that is under way."""
        self._second: bytes | None = None
        self._second_ns = 0

    def feed(self, data: bytes) -> list[LogChunk]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        chunks: list[LogChunk] = []
        for line in lines:
            chunks += self._parts(line, ends_line=True)
        if len(self._rest) > 2 * PART_BYTES:
            chunks += self._parts(self._rest, ends_line=False)
        return chunks

    def end(self) -> list[LogChunk]:
        """The last line of a process that ended needs no newline."""
        rest, self._rest = self._rest, b""
        return self._parts(rest, ends_line=True) if rest or self._time_ns is not None else []

    def _parts(self, line: bytes, *, ends_line: bool) -> list[LogChunk]:
        if self._time_ns is None:
            time, separator, line = line.partition(b" ")
            if not separator and not ends_line:
                raise EngineError("the API server sent a log line without a time")
            self._time_ns = self._nanoseconds(time)
        time_ns, chunks = self._time_ns, []
        while len(line) > PART_BYTES:
            chunks.append(LogChunk(time_ns, LogStream.STDOUT, line[:PART_BYTES], False))
            line = line[PART_BYTES:]
        if ends_line:
            chunks.append(LogChunk(time_ns, LogStream.STDOUT, line, True))
            self._time_ns = None
        else:
            self._rest = line
        return chunks

    def _nanoseconds(self, text: bytes) -> int:
        second, fraction = text[:_SECOND_BYTES], text[_SECOND_BYTES:].removesuffix(b"Z").removeprefix(b".")
        if second != self._second:
            try:
                self._second_ns = timegm(strptime(second.decode("ascii"), "%Y-%m-%dT%H:%M:%S")) * _NANOSECONDS
            except ValueError as exc:
                # A kubelet that cannot go on says why in the place of a line.
                raise EngineError("the API server sent a log line without a time") from exc
            self._second = second
        if len(fraction) > _FRACTION_DIGITS or not (fraction.isdigit() or not fraction):
            raise EngineError("the API server sent a log line without a time")
        return self._second_ns + int(fraction.ljust(_FRACTION_DIGITS, b"0"))

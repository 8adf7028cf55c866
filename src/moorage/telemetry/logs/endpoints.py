"""Reading logs: the same four routes for a container and for a project with all its containers."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import StreamingResponse

from moorage.kit.clock import Clock
from moorage.kit.pagination import Page, decode_cursor, encode_cursor
from moorage.kit.streams import CountedStream, StreamKind, until_refused
from moorage.kit.web import TheClock, TheDatabase, TheSettings, TheStreams
from moorage.organizations.lasting_access import AskedAgain
from moorage.telemetry.logs.reading.access import LogAccess, container_logs, project_logs
from moorage.telemetry.logs.reading.download import MAX_LINES as MAX_DOWNLOAD_LINES
from moorage.telemetry.logs.reading.download import file_of, first_page
from moorage.telemetry.logs.reading.positions import (
    MAX_TAIL_CURSOR_CHARACTERS,
    LinePosition,
    decode_tail,
    encode_tail,
    from_page_position,
    to_page_position,
)
from moorage.telemetry.logs.reading.query import Wanted, WantedBetween
from moorage.telemetry.logs.reading.repository import StoredLine, count_lines, list_lines
from moorage.telemetry.logs.reading.tail import Tail, TailedLine
from moorage.telemetry.logs.schemas import LogHistogram, LogLine
from moorage.telemetry.logs.streams import LineStream
from moorage.telemetry.steps import steps_for

router = APIRouter(tags=["logs"])

DEFAULT_LINES = 200
MAX_LINES = 1000
DEFAULT_RANGE = timedelta(hours=1)
POLL_EVERY_S = 0.5
HEARTBEAT_EVERY_S = 15.0
STREAM_LIMIT_S = 300.0


def _add_routes(path: str, whose: str, readable: Callable[..., Awaitable[LogAccess]]) -> None:
    @router.get(path, summary=f"List log lines of a {whose}")
    async def list_logs(
        database: TheDatabase,
        wanted: WantedBetween,
        access: LogAccess = Depends(readable),
        limit: Annotated[int, Query(ge=1, le=MAX_LINES)] = DEFAULT_LINES,
        cursor: Annotated[str | None, Query(max_length=500)] = None,
    ) -> Page[LogLine]:
        """Lists lines that containers wrote, newest first; fewer than `limit` if lines are long. `from` is inclusive,
        `to` exclusive. `text` matches anywhere in a line, in any case; lines with `exclude` are left out."""
        before: LinePosition | None = None
        if cursor is not None:
            before = from_page_position(decode_cursor(cursor))
        async with database.transaction() as session:
            lines = await list_lines(session, access.found, wanted, limit, before)
        next_cursor = encode_cursor(to_page_position(lines.items[-1].position)) if lines.more else None
        return Page(items=[_shown(line) for line in lines.items], next_cursor=next_cursor)

    @router.get(f"{path}/histogram", summary=f"Count log lines of a {whose}")
    async def count_logs(
        database: TheDatabase,
        clock: TheClock,
        wanted: WantedBetween,
        access: LogAccess = Depends(readable),
        steps: Annotated[int, Query(ge=1, le=500)] = 60,
    ) -> LogHistogram:
        """Counts the lines of each stream in at most `steps` steps of equal, round length. Default: the last hour."""
        to_time = wanted.to_time or clock.now()
        from_time = wanted.from_time or to_time - DEFAULT_RANGE
        cut = steps_for(from_time, to_time, steps)
        between = replace(wanted, from_time=from_time, to_time=to_time)
        async with database.transaction() as session:
            counts = await count_lines(session, access.found, between, cut)
        series = {
            stream: [counts.get((index, stream), 0) for index in range(cut.count)] for stream in LineStream
        }
        return LogHistogram(step_s=cut.step_s, times=list(cut.times), series=series)

    @router.get(
        f"{path}/download",
        summary=f"Download the log of a {whose}",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        description=f"Returns a text file, oldest line first, of at most {MAX_DOWNLOAD_LINES} lines. Its last line says if it is cut.",
    )
    async def download_logs(
        database: TheDatabase,
        clock: TheClock,
        settings: TheSettings,
        streams: TheStreams,
        wanted: WantedBetween,
        access: LogAccess = Depends(readable),
    ) -> StreamingResponse:
        streams.assert_room(StreamKind.DOWNLOADS, access.found.reader_id, settings.downloads_per_person)
        until_now = replace(wanted, to_time=wanted.to_time or clock.now())
        first = await first_page(database, access, until_now)
        name = f"{access.found.container_id or access.found.project_id}.log"
        stream = streams.take(StreamKind.DOWNLOADS, access.found.reader_id, settings.downloads_per_person)
        return CountedStream(
            stream,
            file_of(first, database, access, until_now, clock),
            media_type="text/plain; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    @router.get(
        f"{path}/stream",
        summary=f"Stream the log of a {whose}",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    )
    async def stream_logs(
        database: TheDatabase,
        clock: TheClock,
        settings: TheSettings,
        streams: TheStreams,
        wanted: Wanted,
        access: LogAccess = Depends(readable),
        tail: Annotated[int, Query(ge=0, le=MAX_LINES)] = 0,
        last_event_id: Annotated[str | None, Header(max_length=MAX_TAIL_CURSOR_CHARACTERS)] = None,
    ) -> StreamingResponse:
        """Sends each line as a server-sent event when it arrives. The newest `tail` lines come first; fewer if lines
        are long. The stream ends after five minutes at the latest. To miss and repeat nothing, connect again with the
        last event's id in `Last-Event-ID`, as browsers do by themselves.
        """
        streams.assert_room(StreamKind.LOGS, access.found.reader_id, settings.streams_per_person)
        lines = Tail(database, access.found, wanted)
        first: list[TailedLine] = []
        if last_event_id:
            lines.resume(decode_tail(last_event_id))
        else:
            first = await lines.begin(tail)
        stream = streams.take(StreamKind.LOGS, access.found.reader_id, settings.streams_per_person)
        return CountedStream(
            stream,
            until_refused(_events(lines, first, access, clock)),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )


_add_routes("/containers/{container_id}/logs", "container", container_logs)
_add_routes("/projects/{project_id}/logs", "project", project_logs)


async def _events(tail: Tail, first: list[TailedLine], access: LogAccess, clock: Clock) -> AsyncIterator[str]:
    """Ends without a word when the access does; whoever connects again is told why."""
    may_read = AskedAgain(access, clock)
    began_at_s = sent_at_s = clock.monotonic()
    yield ": lines as they arrive\nretry: 1000\n\n"
    for line in first:
        yield _event(line)
    while clock.monotonic() - began_at_s < STREAM_LIMIT_S and await may_read():
        async for line in tail.step():
            if not await may_read():
                return
            yield _event(line)
            sent_at_s = clock.monotonic()
        if clock.monotonic() - sent_at_s >= HEARTBEAT_EVERY_S:
            yield ": still here\n\n"
            sent_at_s = clock.monotonic()
        await clock.sleep(POLL_EVERY_S)


def _event(tailed: TailedLine) -> str:
    # JSON has no raw line ends, so one `data:` is the whole line whatever it contains.
    return f"id: {encode_tail(tailed.position)}\ndata: {_shown(tailed.line).model_dump_json()}\n\n"


def _shown(line: StoredLine) -> LogLine:
    return LogLine(
        time=line.time,
        container_id=line.container_id,
        instance_id=line.replica_id,
        stream=line.stream,
        sequence=line.sequence,
        text=line.text,
    )

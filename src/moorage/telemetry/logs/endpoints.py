from collections.abc import AsyncIterator
from datetime import UTC
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime

from moorage.containers.access import ContainerAccess, readable_container
from moorage.engines.base import LogStream
from moorage.kit.clock import Clock
from moorage.kit.errors import FieldError, InvalidInputError
from moorage.kit.pagination import Page, PageRequest, decode_cursor, page_of
from moorage.kit.web import TheClock, TheDatabase, TheSession
from moorage.telemetry.logs.reading.positions import (
    MAX_TAIL_CURSOR_CHARACTERS,
    LinePosition,
    decode_tail,
    encode_tail,
    from_page_position,
    to_page_position,
)
from moorage.telemetry.logs.reading.repository import LogFilter, StoredLine, list_lines
from moorage.telemetry.logs.reading.tail import Tail, TailedLine
from moorage.telemetry.logs.schemas import LogLine

router = APIRouter(tags=["logs"])
Readable = Annotated[ContainerAccess, Depends(readable_container)]

DEFAULT_LINES = 200
MAX_LINES = 1000
POLL_EVERY_S = 0.5
HEARTBEAT_EVERY_S = 15.0
STREAM_LIMIT_S = 300.0
"""Then the client connects again, which is also when it is asked again who it is."""

_Time = Annotated[AwareDatetime | None, Query()]


def _wanted(
    instance: Annotated[str | None, Query(pattern="^rep_[a-z2-7]{20}$")] = None,
    stream: LogStream | None = None,
    text: Annotated[str | None, Query(max_length=200)] = None,
) -> LogFilter:
    if text is not None and "\x00" in text:
        raise InvalidInputError("No line contains NUL.", fields=(FieldError("text", "must not contain NUL"),))
    return LogFilter(replica_id=instance, stream=stream, text=text)


def _wanted_between(
    wanted: Annotated[LogFilter, Depends(_wanted)],
    from_time: Annotated[_Time, Query(alias="from")] = None,
    to_time: Annotated[_Time, Query(alias="to")] = None,
) -> LogFilter:
    try:
        from_utc = from_time.astimezone(UTC) if from_time is not None else None
        to_utc = to_time.astimezone(UTC) if to_time is not None else None
    except OverflowError as exc:  # the first or last day there is, in a far time zone
        raise InvalidInputError("from or to is out of range.") from exc
    return LogFilter(from_utc, to_utc, wanted.replica_id, wanted.stream, wanted.text)


@router.get("/containers/{container_id}/logs")
async def list_logs(
    access: Readable,
    session: TheSession,
    wanted: Annotated[LogFilter, Depends(_wanted_between)],
    limit: Annotated[int, Query(ge=1, le=MAX_LINES)] = DEFAULT_LINES,
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> Page[LogLine]:
    """Newest first. `from` is inclusive, `to` exclusive, `text` is found anywhere, whatever its case."""
    before: LinePosition | None = None
    if cursor is not None:
        before = from_page_position(decode_cursor(cursor))
    lines = await list_lines(session, access.container.id, wanted, before, limit + 1)
    page = page_of(lines, PageRequest(limit, None), lambda line: to_page_position(line.position))
    return Page(items=[_shown(line) for line in page.items], next_cursor=page.next_cursor)


@router.get(
    "/containers/{container_id}/logs/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream_logs(
    access: Readable,
    database: TheDatabase,
    clock: TheClock,
    wanted: Annotated[LogFilter, Depends(_wanted)],
    tail: Annotated[int, Query(ge=0, le=MAX_LINES)] = 0,
    last_event_id: Annotated[str | None, Header(max_length=MAX_TAIL_CURSOR_CHARACTERS)] = None,
) -> StreamingResponse:
    """Server-sent events, one JSON line each, as they arrive; `tail` of the newest come first.

    The stream ends after five minutes at the latest: connect again with the last event's id in
    `Last-Event-ID`, as browsers do by themselves, and nothing is missed or repeated.
    """
    lines = Tail(database, access.container.id, wanted)
    first: list[TailedLine] = []
    if last_event_id:
        lines.resume(decode_tail(last_event_id))
    else:
        first = await lines.begin(tail)
    return StreamingResponse(
        _events(lines, first, clock),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _events(tail: Tail, first: list[TailedLine], clock: Clock) -> AsyncIterator[str]:
    began_at_s = sent_at_s = clock.monotonic()
    yield ": lines as they arrive\nretry: 1000\n\n"
    for line in first:
        yield _event(line)
    while clock.monotonic() - began_at_s < STREAM_LIMIT_S:
        async for line in tail.step():
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

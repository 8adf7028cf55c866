"""SQL of reading logs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Executable, func, or_, select, tuple_
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.engines.base import LogStream
from moorage.kit.errors import InvalidInputError
from moorage.telemetry.logs.models import LogCursorRow, LogLineRow
from moorage.telemetry.logs.reading.positions import LinePosition
from moorage.telemetry.logs.repository import STREAM_NUMBERS

SEARCH_TIMEOUT_S = 5
_QUERY_CANCELED = "57014"
_STREAMS = {number: stream for stream, number in STREAM_NUMBERS.items()}
_COLUMNS = (
    LogLineRow.time,
    LogLineRow.container_id,
    LogLineRow.replica_id,
    LogLineRow.stream,
    LogLineRow.sequence,
    LogLineRow.text,
)


@dataclass(frozen=True)
class LogFilter:
    from_time: datetime | None = None
    """Inclusive."""
    to_time: datetime | None = None
    """Exclusive."""
    replica_id: str | None = None
    stream: LogStream | None = None
    text: str | None = None
    """Anywhere in the line, upper and lower case alike."""


@dataclass(frozen=True)
class StoredLine:
    time: datetime
    container_id: str
    replica_id: str
    stream: LogStream
    sequence: int
    text: str

    @property
    def position(self) -> LinePosition:
        return LinePosition(self.time, self.sequence, self.replica_id)


@dataclass(frozen=True)
class TailState:
    """What there is to be followed in a container."""

    now: datetime
    replicas: Sequence["TailReplica"]


@dataclass(frozen=True)
class TailReplica:
    replica_id: str
    next_sequence: int
    finished_at: datetime | None


async def list_lines(
    session: AsyncSession, container_id: str, wanted: LogFilter, before: LinePosition | None, limit: int
) -> list[StoredLine]:
    """Newest first; at most `limit`."""
    query = select(*_COLUMNS).where(LogLineRow.container_id == container_id, *_conditions(wanted))
    order = (LogLineRow.time, LogLineRow.sequence, LogLineRow.replica_id)
    if before is not None:
        query = query.where(tuple_(*order) < (before.time, before.sequence, before.replica_id))
    query = query.order_by(*(column.desc() for column in order)).limit(limit)
    return await _fetch(session, query)


async def tail_state(
    session: AsyncSession, container_id: str, since: datetime | None, known_replica_ids: Sequence[str]
) -> TailState:
    """Replicas that may still print, those named, and those that ended since."""
    wanted = or_(LogCursorRow.finished_at.is_(None), LogCursorRow.replica_id.in_(known_replica_ids))
    if since is not None:
        wanted = or_(wanted, LogCursorRow.finished_at >= since)
    query = select(LogCursorRow.replica_id, LogCursorRow.next_sequence, LogCursorRow.finished_at)
    rows = await session.execute(query.where(LogCursorRow.container_id == container_id, wanted))
    replicas = [TailReplica(*row) for row in rows]
    return TailState((await session.execute(select(func.now()))).scalar_one(), replicas)


async def list_arrived(
    session: AsyncSession, replica_id: str, sequences: range, wanted: LogFilter
) -> list[StoredLine]:
    """Of one replica, in the order of arrival."""
    query = select(*_COLUMNS).where(
        LogLineRow.replica_id == replica_id,
        LogLineRow.sequence >= sequences.start,
        LogLineRow.sequence < sequences.stop,
        *_conditions(wanted),
    )
    return await _fetch(session, query.order_by(LogLineRow.sequence))


def _conditions(wanted: LogFilter) -> list[ColumnElement[bool]]:
    conditions = []
    if wanted.from_time is not None:
        conditions.append(LogLineRow.time >= wanted.from_time)
    if wanted.to_time is not None:
        conditions.append(LogLineRow.time < wanted.to_time)
    if wanted.replica_id is not None:
        conditions.append(LogLineRow.replica_id == wanted.replica_id)
    if wanted.stream is not None:
        conditions.append(LogLineRow.stream == STREAM_NUMBERS[wanted.stream])
    if wanted.text:
        conditions.append(LogLineRow.text.icontains(wanted.text, autoescape=True))
    return conditions


async def _fetch(session: AsyncSession, query: Executable) -> list[StoredLine]:
    """A rare word in millions of lines takes long: better a clear answer than a busy database."""
    await session.execute(select(func.set_config("statement_timeout", f"{SEARCH_TIMEOUT_S}s", True)))
    try:
        rows = (await session.execute(query)).all()
    except DBAPIError as exc:
        if getattr(exc.orig, "sqlstate", None) != _QUERY_CANCELED:
            raise
        raise InvalidInputError(
            f"The search did not end within {SEARCH_TIMEOUT_S} s. Narrow it with from, to, instance or stream.",
            code="log_search_too_broad",
        ) from exc
    return [
        StoredLine(time, container_id, replica_id, _STREAMS[stream], sequence, text)
        for time, container_id, replica_id, stream, sequence, text in rows
    ]

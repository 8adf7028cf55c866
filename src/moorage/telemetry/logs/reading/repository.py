"""SQL of reading logs."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from sqlalchemy import CTE, ColumnElement, Select, func, literal_column, or_, select, true, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow
from moorage.kit.errors import InvalidInputError
from moorage.telemetry.bounded_search import bounded_search
from moorage.telemetry.logs.models import LogCursorRow, LogLineRow
from moorage.telemetry.logs.reading.positions import LinePosition
from moorage.telemetry.logs.streams import STREAM_OF, LineStream, number_of
from moorage.telemetry.steps import Steps

SEARCH_TIMEOUT_S = 5
MOST_BYTES = 2 * 2**20
"""Of the lines that are read at once: each may have 16 KiB, and what is read is made into an answer at a stretch, on the
loop that serves everybody."""
_COLUMNS = (
    LogLineRow.time,
    LogLineRow.container_id,
    LogLineRow.replica_id,
    LogLineRow.stream,
    LogLineRow.sequence,
    LogLineRow.text,
)


@dataclass(frozen=True)
class LogScope:
    """Whose lines are read."""

    project_id: str
    container_id: str | None
    """None: all containers of the project, deleted ones included."""


@dataclass(frozen=True)
class LogFilter:
    from_time: datetime | None = None
    """Inclusive."""
    to_time: datetime | None = None
    """Exclusive."""
    replica_id: str | None = None
    stream: LineStream | None = None
    text: str | None = None
    """Anywhere in the line, upper and lower case alike."""
    exclude: str | None = None
    """Lines with it anywhere are left out, upper and lower case alike."""


class Order(Enum):
    NEWEST_FIRST = "newest first"
    OLDEST_FIRST = "oldest first"


@dataclass(frozen=True)
class StoredLine:
    time: datetime
    container_id: str
    replica_id: str
    stream: LineStream
    sequence: int
    text: str

    @property
    def position(self) -> LinePosition:
        return LinePosition(self.time, self.sequence, self.replica_id)


@dataclass(frozen=True)
class Lines:
    """As many as were asked for, or fewer where they are long."""

    items: list[StoredLine]
    more: bool
    """There are others behind them."""


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
    session: AsyncSession,
    scope: LogScope,
    wanted: LogFilter,
    limit: int,
    beyond: LinePosition | None = None,
    order: Order = Order.NEWEST_FIRST,
) -> Lines:
    """At most `limit`, from `beyond` on."""
    columns = (LogLineRow.time, LogLineRow.sequence, LogLineRow.replica_id)
    query = select(*_COLUMNS).where(*_conditions(wanted))
    if beyond is not None:
        there = tuple_(beyond.time, beyond.sequence, beyond.replica_id)
        query = query.where(
            tuple_(*columns) < there if order is Order.NEWEST_FIRST else tuple_(*columns) > there
        )
    if scope.container_id is not None:
        query = query.where(*_within(scope))
        return await _fetch(session, query, columns, order, limit)
    # Each container's part comes from its own index, in order, and no more of it than can be shown: what a
    # busy one prints does not make the page dearer.
    containers = _containers(scope).where(_has_lines()).cte("containers")
    part = query.where(LogLineRow.container_id == containers.c.id)
    if not wanted.text and not wanted.exclude:  # which would be looked for twice
        farthest = _farthest_time(part, containers, limit + 1, order)
        newest_first = order is Order.NEWEST_FIRST
        part = part.where(LogLineRow.time >= farthest if newest_first else LogLineRow.time <= farthest)
    lines = part.order_by(*_ordered(columns, order)).limit(limit + 1).lateral("lines")
    merged = select(*lines.c).select_from(containers.join(lines, true()))
    in_all = (lines.c.time, lines.c.sequence, lines.c.replica_id)
    return await _fetch(session, merged, in_all, order, limit)


def _farthest_time(
    part: Select[*tuple[Any, ...]], containers: CTE, limit: int, order: Order
) -> ColumnElement[datetime]:
    """A time beyond which no line of the page lies, so that of 30 containers not 30 pages are read to show one.

    A few times of each container are enough for it: with `limit` lines up to a time among some of the lines, there are
    at least as many among all.
    """
    few = select(2 + 2 * limit // func.greatest(func.count(), 1)).select_from(containers).scalar_subquery()
    some = part.with_only_columns(LogLineRow.time).order_by(*_ordered((LogLineRow.time,), order)).limit(few)
    times = some.lateral("times")
    last = (
        select(times.c.time)
        .select_from(containers.join(times, true()))
        .order_by(*_ordered((times.c.time,), order))
        .offset(limit - 1)
        .limit(1)
    )
    nowhere = "-infinity" if order is Order.NEWEST_FIRST else "infinity"
    return func.coalesce(last.scalar_subquery(), literal_column(f"'{nowhere}'::timestamptz"))


async def count_lines(
    session: AsyncSession, scope: LogScope, wanted: LogFilter, steps: Steps
) -> dict[tuple[int, LineStream], int]:
    """How many lines there are in each step of each stream, where there are any."""
    bucket = func.date_bin(timedelta(seconds=steps.step_s), LogLineRow.time, steps.first)
    query = (
        select(bucket, LogLineRow.stream, func.count())
        .where(*_within(scope), *_conditions(wanted))
        .group_by(literal_column("1"), LogLineRow.stream)
    )
    async with _bounded_search(session):
        rows = (await session.execute(query)).all()
    return {(steps.index_of(time), STREAM_OF[stream]): count for time, stream, count in rows}


async def tail_state(
    session: AsyncSession, scope: LogScope, since: datetime | None, known_replica_ids: Sequence[str]
) -> TailState:
    """Replicas that may still print, those named, and those that ended since."""
    wanted = or_(LogCursorRow.finished_at.is_(None), LogCursorRow.replica_id.in_(known_replica_ids))
    if since is not None:
        wanted = or_(wanted, LogCursorRow.finished_at >= since)
    query = select(LogCursorRow.replica_id, LogCursorRow.next_sequence, LogCursorRow.finished_at)
    rows = await session.execute(query.where(LogCursorRow.container_id.in_(_containers(scope)), wanted))
    replicas = [TailReplica(*row) for row in rows]
    return TailState((await session.execute(select(func.now()))).scalar_one(), replicas)


async def list_arrived(
    session: AsyncSession, replica_id: str, sequences: range, wanted: LogFilter, most_bytes: int
) -> Lines:
    """Of one replica, in the order of arrival."""
    query = select(*_COLUMNS).where(
        LogLineRow.replica_id == replica_id,
        LogLineRow.sequence >= sequences.start,
        LogLineRow.sequence < sequences.stop,
        *_conditions(wanted),
    )
    by = (LogLineRow.sequence,)
    return await _fetch(session, query, by, Order.OLDEST_FIRST, len(sequences), most_bytes)


def _conditions(wanted: LogFilter) -> list[ColumnElement[bool]]:
    conditions = []
    if wanted.from_time is not None:
        conditions.append(LogLineRow.time >= wanted.from_time)
    if wanted.to_time is not None:
        conditions.append(LogLineRow.time < wanted.to_time)
    if wanted.replica_id is not None:
        conditions.append(LogLineRow.replica_id == wanted.replica_id)
    if wanted.stream is not None:
        conditions.append(LogLineRow.stream == number_of(wanted.stream))
    if wanted.text:
        conditions.append(LogLineRow.text.icontains(wanted.text, autoescape=True))
    if wanted.exclude:
        conditions.append(~LogLineRow.text.icontains(wanted.exclude, autoescape=True))
    return conditions


def _within(scope: LogScope) -> list[ColumnElement[bool]]:
    """The project is asked for with every container: an id in a query is not yet a right to it."""
    if scope.container_id is None:
        return [LogLineRow.container_id.in_(_containers(scope).where(_has_lines()))]
    return [LogLineRow.container_id == scope.container_id, LogLineRow.project_id == scope.project_id]


def _containers(scope: LogScope) -> Select[str]:
    query = select(ContainerRow.id).where(ContainerRow.project_id == scope.project_id)
    return query if scope.container_id is None else query.where(ContainerRow.id == scope.container_id)


def _has_lines() -> ColumnElement[bool]:
    """A cursor is kept for as long as there may be lines, also of a container that is deleted."""
    return select(LogCursorRow.replica_id).where(LogCursorRow.container_id == ContainerRow.id).exists()


def _ordered(columns: Sequence[Any], order: Order) -> list[Any]:
    return [column.desc() if order is Order.NEWEST_FIRST else column for column in columns]


async def _fetch(
    session: AsyncSession,
    query: Select[*tuple[Any, ...]],
    by: Sequence[Any],
    order: Order,
    limit: int,
    most_bytes: int = MOST_BYTES,
) -> Lines:
    """What is too much stays in the database: one line beyond the bounds is read, which tells that there are more."""
    found = query.order_by(*_ordered(by, order)).limit(limit + 1).subquery("found")
    in_order = _ordered([found.c[column.key] for column in by], order)
    # Not its length in characters: for that Postgres would have to unpack every long line.
    size = func.octet_length(found.c.text)
    before = func.sum(size).over(order_by=in_order, rows=(None, 0)) - size
    sized = select(*found.c, before.label("before")).subquery("sized")
    within = select(*(sized.c[column.key] for column in _COLUMNS)).where(sized.c.before <= most_bytes)
    async with _bounded_search(session):
        rows = (
            await session.execute(within.order_by(*_ordered([sized.c[column.key] for column in by], order)))
        ).all()
    lines = [
        StoredLine(time, container_id, replica_id, STREAM_OF[stream], sequence, text)
        for time, container_id, replica_id, stream, sequence, text in rows
    ]
    more = len(lines) > limit or sum(len(line.text.encode()) for line in lines) > most_bytes
    return Lines(lines[:-1] if more and len(lines) > 1 else lines, more)


def _bounded_search(session: AsyncSession) -> AbstractAsyncContextManager[None]:
    refusal = InvalidInputError(
        f"The search did not end within {SEARCH_TIMEOUT_S} s. Narrow it with from, to, instance or stream.",
        code="log_search_too_broad",
    )
    return bounded_search(session, SEARCH_TIMEOUT_S, refusal)

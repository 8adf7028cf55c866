"""SQL of requests."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, Subquery, cast, func, literal_column, select
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.database import copy_rows
from moorage.kit.portions import portions
from moorage.telemetry.requests.figures import STATUS_CLASSES, STEP_S, Figures
from moorage.telemetry.requests.models import RequestHistogramRow, RequestRecordRow
from moorage.telemetry.requests.record import Ending, RequestRecord
from moorage.telemetry.steps import Steps

_ROWS_AT_ONCE = 500
TABLES = (RequestRecordRow.__tablename__, RequestHistogramRow.__tablename__)
_FIELDS = tuple(field.name for field in fields(RequestRecord))
_HISTOGRAM_COLUMNS = (
    "container_id", "time", "gateway_id", "written_at", "statuses", "buckets", "counts",
    "first_byte_buckets", "first_byte_counts", "key_ids", "key_counts",
)  # fmt: skip


async def store(
    session: AsyncSession,
    gateway_id: str,
    written_at: datetime,
    records: Iterable[RequestRecord],
    figures: Mapping[tuple[str, int], Figures],
) -> None:
    """`figures` by container and by when the step began, in seconds since 1970."""
    # A crash of Postgres may take the last moment: worth less than a wait for the disk every second.
    await session.execute(select(func.set_config("synchronous_commit", "off", True)))
    written = (gateway_id, written_at)
    # In portions: each is put together at a stretch, on a loop that others wait for.
    for some in portions(records, _ROWS_AT_ONCE):
        rows = [(*(getattr(record, name) for name in _FIELDS), *written) for record in some]
        await copy_rows(session, RequestRecordRow, (*_FIELDS, "gateway_id", "written_at"), rows)
    for some_figures in portions(figures.items(), _ROWS_AT_ONCE):
        steps = [
            (
                container_id,
                datetime.fromtimestamp(began_at_s, UTC),
                *written,
                step.statuses,
                list(step.histogram),
                list(step.histogram.values()),
                list(step.first_bytes),
                list(step.first_bytes.values()),
                list(step.keys),
                list(step.keys.values()),
            )
            for (container_id, began_at_s), step in some_figures
        ]
        await copy_rows(session, RequestHistogramRow, _HISTOGRAM_COLUMNS, steps)


async def find_record(session: AsyncSession, request_id: str) -> tuple[RequestRecord, str] | None:
    """With the gateway that it came through."""
    query = select(RequestRecordRow).where(RequestRecordRow.request_id == request_id).limit(1)
    row = (await session.execute(query)).scalar_one_or_none()
    if row is None:
        return None
    values = {name: getattr(row, name) for name in _FIELDS if name != "ended"}
    return RequestRecord(**values, ended=Ending(row.ended)), row.gateway_id


async def count_requests(
    session: AsyncSession, container_id: str, from_time: datetime, to_time: datetime
) -> int:
    """Those that ended in that time, with all of the step of 10 s that it begins in."""
    row = RequestHistogramRow
    statuses = (
        select(func.unnest(row.statuses).label("requests"))
        .where(
            row.container_id == container_id,
            row.time > from_time - timedelta(seconds=STEP_S),
            row.time < to_time,
            row.written_at >= from_time,
        )
        .subquery()
    )
    total = select(cast(func.coalesce(func.sum(statuses.c.requests), 0), BigInteger))
    return int((await session.execute(total)).scalar_one())


async def list_merged_figures(
    session: AsyncSession, container_id: str, steps: Steps
) -> dict[datetime, Figures]:
    """By when each step began, of all gateways together; steps without requests are absent. They are added up in the
    database: a week is sixty thousand histograms."""
    row = RequestHistogramRow
    step = func.date_bin(timedelta(seconds=steps.step_s), row.time, steps.first).label("step")
    there = (
        row.container_id == container_id,
        row.time >= steps.first,
        row.time < steps.end,
        # No row is written before its time, so days before it need not be looked at.
        row.written_at >= steps.first,
    )
    positions = range(1, len(STATUS_CLASSES) + 1)
    sums = [cast(func.sum(row.statuses[position]), BigInteger) for position in positions]
    counted = select(step, *sums).where(*there).group_by(literal_column("1")).subquery()
    times = _added_up(step, row.buckets, row.counts, there)
    first_bytes = _added_up(step, row.first_byte_buckets, row.first_byte_counts, there)
    # In one statement, which sees one moment: gateways write all the while.
    joined = counted.outerjoin(times, times.c.step == counted.c.step)
    joined = joined.outerjoin(first_bytes, first_bytes.c.step == counted.c.step)
    columns = (*counted.c, times.c.buckets, times.c.counts, first_bytes.c.buckets, first_bytes.c.counts)
    found = await session.execute(select(*columns).select_from(joined))
    return {
        time: Figures(statuses, _histogram(*of_all), _histogram(*of_answered))
        for (time, *statuses), of_all, of_answered in ((one[:-4], one[-4:-2], one[-2:]) for one in found)
    }


def _histogram(buckets: list[int] | None, counts: list[int] | None) -> dict[int, int]:
    return dict(zip(buckets or (), counts or (), strict=True))


def _added_up(step: Any, buckets: Any, counts: Any, there: tuple[Any, ...]) -> Subquery:
    each = select(step, func.unnest(buckets).label("bucket"), func.unnest(counts).label("requests"))
    one = each.where(*there).subquery()
    total = cast(func.sum(one.c.requests), BigInteger).label("requests")
    by_bucket = select(one.c.step, one.c.bucket, total).group_by(one.c.step, one.c.bucket).subquery()
    arrays = [
        func.array_agg(aggregate_order_by(column, by_bucket.c.bucket)).label(name)
        for name, column in (("buckets", by_bucket.c.bucket), ("counts", by_bucket.c.requests))
    ]
    return select(by_bucket.c.step, *arrays).group_by(by_bucket.c.step).subquery()

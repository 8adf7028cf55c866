"""SQL of requests."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.database import copy_rows
from moorage.telemetry.requests.figures import Figures
from moorage.telemetry.requests.models import RequestHistogramRow, RequestRecordRow
from moorage.telemetry.requests.record import Ending, RequestRecord

TABLES = (RequestRecordRow.__tablename__, RequestHistogramRow.__tablename__)
_FIELDS = tuple(field.name for field in fields(RequestRecord))
_HISTOGRAM_COLUMNS = (
    "container_id", "time", "gateway_id", "written_at", "statuses", "buckets", "counts",
    "first_byte_buckets", "first_byte_counts",
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
    rows = [(*(getattr(record, name) for name in _FIELDS), *written) for record in records]
    if rows:
        await copy_rows(session, RequestRecordRow, (*_FIELDS, "gateway_id", "written_at"), rows)
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
        )
        for (container_id, began_at_s), step in figures.items()
    ]
    if steps:
        await copy_rows(session, RequestHistogramRow, _HISTOGRAM_COLUMNS, steps)


async def find_record(session: AsyncSession, request_id: str) -> RequestRecord | None:
    query = select(RequestRecordRow).where(RequestRecordRow.request_id == request_id).limit(1)
    row = (await session.execute(query)).scalar_one_or_none()
    if row is None:
        return None
    values = {name: getattr(row, name) for name in _FIELDS if name != "ended"}
    return RequestRecord(**values, ended=Ending(row.ended))


async def list_figures(
    session: AsyncSession, container_id: str, from_time: datetime, to_time: datetime
) -> dict[datetime, Figures]:
    """By when each step of 10 s began, of all gateways together; steps without requests are absent. `from_time` is
    inclusive, `to_time` exclusive."""
    query = select(
        RequestHistogramRow.time,
        RequestHistogramRow.statuses,
        RequestHistogramRow.buckets,
        RequestHistogramRow.counts,
        RequestHistogramRow.first_byte_buckets,
        RequestHistogramRow.first_byte_counts,
    ).where(
        RequestHistogramRow.container_id == container_id,
        RequestHistogramRow.time >= from_time,
        RequestHistogramRow.time < to_time,
        # No row is written before its time, so days before it need not be looked at.
        RequestHistogramRow.written_at >= from_time,
    )
    found: dict[datetime, Figures] = {}
    for time, statuses, buckets, counts, first_buckets, first_counts in await session.execute(query):
        step = found.setdefault(time, Figures())
        step.include(
            statuses,
            dict(zip(buckets, counts, strict=True)),
            dict(zip(first_buckets, first_counts, strict=True)),
        )
    return dict(sorted(found.items()))

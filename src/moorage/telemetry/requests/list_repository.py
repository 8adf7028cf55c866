"""SQL of a container's requests, newest first."""

from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta

from sqlalchemy import func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.identity.api_keys.models import ApiKeyRow
from moorage.kit.errors import InvalidInputError
from moorage.kit.pagination import PageRequest
from moorage.telemetry.bounded_search import bounded_search
from moorage.telemetry.requests.held_models import HeldRequestRow
from moorage.telemetry.requests.models import RequestRecordRow
from moorage.telemetry.requests.record import Ending
from moorage.telemetry.requests.schemas import RequestSummary

LONGEST_BEFORE = timedelta(minutes=10)
"""Of those that were under way at a moment, one that had begun earlier is not looked for: it would be a look at all records."""
LONGEST_SEARCH_S = 5
"""Through all records of a container, which may be tens of millions."""
PRINTED_AFTER = timedelta(seconds=1)
"""Servers print the line about a request once they have answered it."""


@dataclass(frozen=True)
class RequestFilter:
    from_time: datetime | None = None
    """Inclusive; of its beginning, as the next."""
    to_time: datetime | None = None
    """Exclusive."""
    under_way_at: datetime | None = None
    replica_id: str | None = None
    failed: bool = False


async def list_requests(
    session: AsyncSession, container_id: str, wanted: RequestFilter, page: PageRequest
) -> list[RequestSummary]:
    """One more than the limit where there are more. Within a transaction."""
    row, held = RequestRecordRow, HeldRequestRow
    # The gateway's log names whoever held it; the replica that answered is known to that one.
    replica_id = func.coalesce(row.replica_id, held.replica_id)
    query = (
        select(
            row.request_id,
            row.started_at,
            row.first_byte_ms,
            row.total_ms,
            held.held_ms,
            row.status,
            row.ended,
            row.method,
            row.path,
            replica_id,
            row.key_id,
            ApiKeyRow.name,
        )
        .outerjoin(held, held.request_id == row.request_id)
        .outerjoin(ApiKeyRow, ApiKeyRow.id == row.key_id)
        .where(row.container_id == container_id)
    )
    if wanted.from_time is not None:
        # None is written before it began, so days before that need not be looked at.
        query = query.where(row.started_at >= wanted.from_time, row.written_at >= wanted.from_time)
    if wanted.to_time is not None:
        query = query.where(row.started_at < wanted.to_time)
    if (at := wanted.under_way_at) is not None:
        ended_at = row.started_at + row.total_ms * timedelta(milliseconds=1)
        query = query.where(
            row.started_at <= at,
            row.started_at > at - LONGEST_BEFORE,
            row.written_at > at - LONGEST_BEFORE,
            ended_at >= at - PRINTED_AFTER,
        )
    if wanted.replica_id is not None:
        query = query.where(replica_id == wanted.replica_id)
    if wanted.failed:
        query = query.where(or_(row.status.is_(None), row.status >= 400, row.ended != Ending.COMPLETED))
    if page.after is not None:
        query = query.where(tuple_(row.started_at, row.request_id) < (page.after.time, page.after.id))
    newest_first = query.order_by(row.started_at.desc(), row.request_id.desc()).limit(page.limit + 1)
    names = [field.name for field in fields(RequestSummary)]
    refusal = InvalidInputError(
        f"The search did not end within {LONGEST_SEARCH_S} s. Narrow it with from or at.",
        code="request_search_too_broad",
    )
    async with bounded_search(session, LONGEST_SEARCH_S, refusal):
        rows = (await session.execute(newest_first)).all()
    summaries = (RequestSummary(**dict(zip(names, found, strict=True))) for found in rows)
    return [replace(summary, ended=Ending(summary.ended)) for summary in summaries]

"""SQL of a replay. A week is read piece by piece: the loop that reads it serves everybody."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.autoscaling.models import AutoscalingDecisionRow
from moorage.telemetry.metrics.repository import list_steps
from moorage.telemetry.metrics.samples import Step

_ROWS_AT_ONCE = 1000


async def read_steps(
    session: AsyncSession, container_id: str, step_s: int, since: datetime, until: datetime
) -> AsyncIterator[Step]:
    piece = timedelta(seconds=step_s * _ROWS_AT_ONCE)
    while since < until:
        for step in await list_steps(session, step_s, since, min(since + piece, until), container_id):
            yield step
        since += piece


async def replicas_before(session: AsyncSession, container_id: str, at: datetime) -> int | None:
    """By the decision that was in force; None where there was none."""
    row = AutoscalingDecisionRow
    earlier = select(row.replicas).where(row.container_id == container_id, row.at < at)
    return (await session.execute(earlier.order_by(row.at.desc()).limit(1))).scalar_one_or_none()


async def read_decisions(
    session: AsyncSession, container_id: str, since: datetime
) -> AsyncIterator[tuple[int, int, int]]:
    """The second, the number of replicas before and after; oldest first."""
    row = AutoscalingDecisionRow
    mine = select(row.at, row.replicas_before, row.replicas).where(row.container_id == container_id)
    piece = mine.where(row.at >= since)
    while True:
        found = (await session.execute(piece.order_by(row.at).limit(_ROWS_AT_ONCE))).all()
        for at, before, after in found:
            yield int(at.timestamp()), before, after
        if len(found) < _ROWS_AT_ONCE:
            return
        piece = mine.where(row.at > found[-1].at)


async def last_rise_before(session: AsyncSession, container_id: str, at: datetime) -> int | None:
    row = AutoscalingDecisionRow
    rises = select(row.at).where(
        row.container_id == container_id, row.at < at, row.replicas > row.replicas_before
    )
    found = (await session.execute(rises.order_by(row.at.desc()).limit(1))).scalar_one_or_none()
    return int(found.astimezone(UTC).timestamp()) if found is not None else None

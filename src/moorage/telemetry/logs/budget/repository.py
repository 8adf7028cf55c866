"""SQL of how much is stored of each container's log, and of what goes when that is too much."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import BigInteger, Date, cast, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow
from moorage.telemetry.logs.budget.models import LogVolumeRow
from moorage.telemetry.logs.budget.plan import DayVolume
from moorage.telemetry.logs.models import LogLineRow

_TODAY = cast(func.timezone("UTC", func.now()), Date)


@dataclass(frozen=True)
class ContainerVolume:
    container_id: str
    project_id: str | None
    """None: the container is deleted, its lines are not."""
    name: str | None
    bytes: int
    lines: int
    dropped_lines: int
    since: date


async def add_volume(session: AsyncSession, container_id: str, volume_bytes: int, lines: int) -> None:
    """As the last thing of its transaction: other replicas of the container wait for the row."""
    added = insert(LogVolumeRow).values(
        container_id=container_id, day=_TODAY, bytes=volume_bytes, lines=lines, dropped_lines=0
    )
    await session.execute(
        added.on_conflict_do_update(
            index_elements=("container_id", "day"),
            set_={
                "bytes": LogVolumeRow.bytes + added.excluded.bytes,
                "lines": LogVolumeRow.lines + added.excluded.lines,
            },
        )
    )


async def list_over_budget(session: AsyncSession, budget_bytes: int) -> dict[str, list[DayVolume]]:
    row = LogVolumeRow
    over = select(row.container_id).group_by(row.container_id).having(func.sum(row.bytes) > budget_bytes)
    found: dict[str, list[DayVolume]] = {}
    query = select(row.container_id, row.day, row.bytes, row.lines).where(row.container_id.in_(over))
    for container_id, day, stored_bytes, lines in await session.execute(query):
        found.setdefault(container_id, []).append(DayVolume(day, stored_bytes, lines))
    return found


async def drop_oldest(session: AsyncSession, container_id: str, day: date, lines: int) -> int:
    """About so many of that day (more where times are equal), and what was counted of them. How many went."""
    begin = datetime.combine(day, time(), UTC)
    row = LogLineRow
    of_the_day = (
        row.container_id == container_id,
        row.written_at >= begin,
        row.written_at < begin + timedelta(days=1),
    )
    last = select(row.time).where(*of_the_day).order_by(row.time).offset(lines - 1).limit(1)
    until = (await session.execute(last)).scalar_one_or_none()
    older = (row.time <= until,) if until is not None else ()
    deleted = await session.execute(
        delete(row).where(*of_the_day, *older).execution_options(synchronize_session=False)
    )
    dropped = int(deleted.rowcount)  # type: ignore[attr-defined]
    counted = LogVolumeRow
    share = func.least(1.0, dropped / func.greatest(counted.lines, 1.0)) if until is not None else 1.0
    await session.execute(
        update(counted)
        .where(counted.container_id == container_id, counted.day == day)
        .values(
            bytes=counted.bytes - cast(counted.bytes * share, BigInteger),
            lines=func.greatest(counted.lines - dropped, 0) if until is not None else 0,
            dropped_lines=counted.dropped_lines + dropped,
        )
    )
    return dropped


async def forget_days_before(session: AsyncSession, day: date) -> None:
    await session.execute(delete(LogVolumeRow).where(LogVolumeRow.day < day))


async def list_largest(session: AsyncSession, limit: int) -> list[ContainerVolume]:
    row = LogVolumeRow
    total = func.sum(row.bytes)
    query = (
        select(
            row.container_id,
            ContainerRow.project_id,
            ContainerRow.name,
            cast(total, BigInteger),
            cast(func.sum(row.lines), BigInteger),
            cast(func.sum(row.dropped_lines), BigInteger),
            func.min(row.day),
        )
        .outerjoin(ContainerRow, ContainerRow.id == row.container_id)
        .group_by(row.container_id, ContainerRow.project_id, ContainerRow.name)
        .order_by(total.desc(), row.container_id)
        .limit(limit)
    )
    return [ContainerVolume(*found) for found in await session.execute(query)]

"""SQL of tables that have a partition for each day (UTC), so that retention drops a table instead of deleting rows."""

from datetime import date, datetime, timedelta

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.telemetry.capsules.models import CrashCapsuleRow
from moorage.telemetry.logs.models import LogLineRow
from moorage.telemetry.requests.models import RequestHistogramRow, RequestRecordRow

DIVIDED_BY_DAYS = (
    CrashCapsuleRow.__tablename__,
    LogLineRow.__tablename__,
    RequestRecordRow.__tablename__,
    RequestHistogramRow.__tablename__,
)
_LOCK_TIMEOUT = "2s"


async def list_partitions(session: AsyncSession, table: str) -> tuple[set[date], datetime]:
    """The days that have a partition, and the database's time."""
    query = text(
        "SELECT child.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid "
        "WHERE inhparent = to_regclass(:table)"
    )
    names = (await session.execute(query, {"table": table})).scalars()
    days = {date.fromisoformat(name.removeprefix(f"{table}_")) for name in names}
    return days, (await session.execute(select(func.now()))).scalar_one()


async def create_partition(session: AsyncSession, table: str, day: date) -> None:
    await _give_up_soon(session)
    bounds = f"FROM ('{day} 00:00:00+00') TO ('{day + timedelta(days=1)} 00:00:00+00')"
    await session.execute(
        text(f"CREATE TABLE IF NOT EXISTS {_name_of(table, day)} PARTITION OF {table} FOR VALUES {bounds}")
    )


async def drop_partition(session: AsyncSession, table: str, day: date) -> None:
    await _give_up_soon(session)
    await session.execute(text(f"DROP TABLE IF EXISTS {_name_of(table, day)}"))


async def _give_up_soon(session: AsyncSession) -> None:
    # Both statements lock the whole table; behind one that waits, every reader and writer would wait too.
    await session.execute(select(func.set_config("lock_timeout", _LOCK_TIMEOUT, True)))


def _name_of(table: str, day: date) -> str:
    return f"{table}_{day:%Y%m%d}"

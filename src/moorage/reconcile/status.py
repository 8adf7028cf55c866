"""When each reconciler last ran and how that went."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.database import Database
from moorage.reconcile.lease import Lease
from moorage.reconcile.models import ReconcilerStatusRow


@dataclass(frozen=True)
class ReconcilerStatus:
    name: str
    holder: str
    last_run_at: datetime
    last_success_at: datetime | None
    last_error: str | None
    consecutive_failures: int
    objects_failing: int
    age_s: float


async def record_run(
    database: Database, lease: Lease, holder: str, error: str | None, objects_failing: int
) -> None:
    failed = 1 if error else 0
    row = ReconcilerStatusRow
    values = {
        "holder": holder,
        "last_run_at": func.now(),
        "last_error": error[:500] if error else None,
        "objects_failing": objects_failing,
    }
    statement = (
        insert(row)
        .values(
            name=lease.name,
            consecutive_failures=failed,
            last_success_at=None if error else func.now(),
            **values,
        )
        .on_conflict_do_update(
            index_elements=[row.name],
            set_={
                **values,
                "consecutive_failures": row.consecutive_failures + 1 if error else 0,
                "last_success_at": row.last_success_at if error else func.now(),
            },
        )
    )
    async with database.transaction() as session:
        await lease.guard(session)
        await session.execute(statement)


async def reconciler_statuses(session: AsyncSession) -> list[ReconcilerStatus]:
    age_s = func.extract("epoch", func.now() - ReconcilerStatusRow.last_run_at)
    rows = (
        await session.execute(select(ReconcilerStatusRow, age_s).order_by(ReconcilerStatusRow.name))
    ).all()
    return [
        ReconcilerStatus(
            row.name,
            row.holder,
            row.last_run_at,
            row.last_success_at,
            row.last_error,
            row.consecutive_failures,
            row.objects_failing,
            float(age),
        )
        for row, age in rows
    ]

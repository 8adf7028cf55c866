"""When each reconciler last ran and how that went."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import String, bindparam, case, func, select
from sqlalchemy.dialects.postgresql import Insert, insert
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


def _recording() -> Insert:
    row, failed = ReconcilerStatusRow, bindparam("failure", type_=String).is_not(None)
    values = {
        "holder": bindparam("by"),
        "last_run_at": func.now(),
        "last_error": bindparam("failure", type_=String),
        "objects_failing": bindparam("failing"),
    }
    fresh = insert(row).values(
        name=bindparam("reconciler"),
        consecutive_failures=case((failed, 1), else_=0),
        last_success_at=case((failed, None), else_=func.now()),
        **values,
    )
    again = {
        **values,
        "consecutive_failures": case((failed, row.consecutive_failures + 1), else_=0),
        "last_success_at": case((failed, row.last_success_at), else_=func.now()),
    }
    return fresh.on_conflict_do_update(index_elements=[row.name], set_=again)


_RECORD = _recording()
"""Made once: each reconciler runs it every few seconds."""


async def record_run(
    database: Database, lease: Lease, holder: str, error: str | None, objects_failing: int
) -> None:
    values = {
        "reconciler": lease.name,
        "by": holder,
        "failure": error[:500] if error else None,
        "failing": objects_failing,
    }
    async with database.transaction() as session:
        await lease.guard(session)
        await session.execute(_RECORD, values)


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

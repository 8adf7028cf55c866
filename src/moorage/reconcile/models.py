from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base


class LeaseRow(Base):
    """Who leads. `token` grows with every change of leader and guards every write of a reconciler."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    token: Mapped[int] = mapped_column(BigInteger)
    expires_at: Mapped[datetime]


class ReconcilerStatusRow(Base):
    """What each reconciler did last; `moor status` and `/operator/health` show it."""

    __tablename__ = "reconciler_status"
    __table_args__ = (CheckConstraint("consecutive_failures >= 0", name="failures_not_negative"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    holder: Mapped[str]
    last_run_at: Mapped[datetime]
    last_success_at: Mapped[datetime | None]
    last_error: Mapped[str | None]
    consecutive_failures: Mapped[int] = mapped_column(default=0)
    objects_failing: Mapped[int] = mapped_column(default=0)

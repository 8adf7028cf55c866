"""When a container slept, what woke it, and what that saved."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base


class SleepRow(Base):
    __tablename__ = "container_sleeps"

    container_id: Mapped[str] = mapped_column(
        ForeignKey("containers.id", ondelete="CASCADE"), primary_key=True
    )
    asleep_at: Mapped[datetime] = mapped_column(primary_key=True)
    paid_until: Mapped[datetime | None]
    """The end of its last paid hour, as it was when it fell asleep."""
    replicas: Mapped[int]
    """That it would have had."""
    price_per_hour_microusd: Mapped[int] = mapped_column(BigInteger)
    """Of one of them."""
    woken_at: Mapped[datetime | None]
    """Or started, stopped or deleted."""
    woken_by: Mapped[str | None]
    """`usr_…` or `key_…`; by a key it was a request, or the API."""
    served_at: Mapped[datetime | None]
    """When a replica was at the endpoint again."""
    replica_id: Mapped[str | None]
    """Which one."""

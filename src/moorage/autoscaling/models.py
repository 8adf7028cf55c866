from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base


class AutoscalingDecisionRow(Base):
    """A decision that differs from the one before; it holds until the next one."""

    __tablename__ = "autoscaling_decisions"

    container_id: Mapped[str] = mapped_column(ForeignKey("containers.id"), primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    """The second up to which demand was known."""
    replicas_before: Mapped[int]
    replicas: Mapped[int]
    wanted: Mapped[int]
    limited_by: Mapped[str | None]
    reason: Mapped[str]
    inputs: Mapped[dict[str, Any]] = mapped_column(JSONB)

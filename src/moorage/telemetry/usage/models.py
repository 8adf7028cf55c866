"""Table of what replicas use. It refers to nothing: figures outlive their replica until they are too old."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index, SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base


class ReplicaUsageRow(Base):
    """`blocks.Block`."""

    __tablename__ = "replica_usage"
    __table_args__ = (Index("ix_replica_usage_container_id_at", "container_id", "step_s", "at"),)

    step_s: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    replica_id: Mapped[str] = mapped_column(primary_key=True)
    container_id: Mapped[str]
    figures: Mapped[dict[str, Any]]

"""Crash capsules: what was known about a replica when it ended badly.

Written once and never again: a trigger refuses to change or delete one. They go with their day's partition, as logs do,
and refer to nothing, because they outlive their container.
"""

from typing import Any

from sqlalchemy import Index
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class CrashCapsuleRow(Base):
    __tablename__ = "crash_capsules"
    __table_args__ = (
        Index("ix_crash_capsules_container_id_written_at", "container_id", "written_at", "replica_id"),
        {"postgresql_partition_by": "RANGE (written_at)"},
    )

    replica_id: Mapped[str] = mapped_column(primary_key=True)
    written_at: Mapped[CreatedAt] = mapped_column(primary_key=True)
    container_id: Mapped[str]
    project_id: Mapped[str]
    content: Mapped[dict[str, Any]] = mapped_column(JSONB)
    """`schemas.CapsuleContent`."""

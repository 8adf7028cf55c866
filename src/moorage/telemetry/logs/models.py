"""Tables of runtime logs.

`log_lines` has a partition for each day (UTC) on which lines were written, so that retention drops a table
instead of deleting rows. It refers to nothing: lines outlive their container.
"""

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class LogLineRow(Base):
    __tablename__ = "log_lines"
    __table_args__ = (
        # Newest first within a container, the last two columns so that a page can end between equal times.
        Index("ix_log_lines_container_id_time", "container_id", "time", "sequence", "replica_id"),
        CheckConstraint("stream IN (1, 2, 3)", name="stream"),
        {"postgresql_partition_by": "RANGE (written_at)"},
    )

    replica_id: Mapped[str] = mapped_column(primary_key=True)
    sequence: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    """In order of arrival within the replica, from 0, without gaps."""
    written_at: Mapped[CreatedAt] = mapped_column(primary_key=True)
    container_id: Mapped[str]
    project_id: Mapped[str]
    time: Mapped[datetime]
    """The engine's, when the line began."""
    stream: Mapped[int] = mapped_column(SmallInteger)
    """1 stdout, 2 stderr, 3 Moorage itself."""
    text: Mapped[str]


class LogCursorRow(Base):
    """How far a replica's output was stored; committed together with the lines it speaks of.

    Made in a transaction of its own before the first line, so that a tail that began before a replica ended
    has seen it.
    """

    __tablename__ = "log_cursors"
    __table_args__ = (Index("ix_log_cursors_container_id_finished_at", "container_id", "finished_at"),)

    replica_id: Mapped[str] = mapped_column(ForeignKey("replicas.id", ondelete="CASCADE"), primary_key=True)
    container_id: Mapped[str]
    next_sequence: Mapped[int] = mapped_column(BigInteger, default=0)
    since_ns: Mapped[int] = mapped_column(BigInteger, default=0)
    stdout_time_ns: Mapped[int] = mapped_column(BigInteger, default=0)
    stdout_chunks: Mapped[int] = mapped_column(default=0)
    stderr_time_ns: Mapped[int] = mapped_column(BigInteger, default=0)
    stderr_chunks: Mapped[int] = mapped_column(default=0)
    finished_at: Mapped[datetime | None]
    """No line will follow."""

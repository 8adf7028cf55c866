from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class ReplicaLimitRequestRow(Base):
    """That a project wants more replicas for a container than its limit, and what the operator said to it."""

    __tablename__ = "replica_limit_requests"
    __table_args__ = (
        # One open request for a container, however often it is started.
        Index(
            "uq_replica_limit_requests_open_container",
            "container_id",
            unique=True,
            postgresql_where=text("state = 'pending'"),
        ),
        Index("ix_replica_limit_requests_project_id_created_at", "project_id", "created_at"),
        CheckConstraint("state IN ('pending', 'approved', 'refused', 'withdrawn')", name="state"),
        CheckConstraint("replicas BETWEEN 1 AND 1000", name="replicas"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    container_id: Mapped[str | None] = mapped_column(ForeignKey("containers.id"))
    """The container that waits for it; None for a request made ahead."""
    replicas: Mapped[int]
    note: Mapped[str | None]
    """Why they are needed, in the asker's words."""
    scaling: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """How a container that runs meanwhile is to scale once it is allowed to."""
    state: Mapped[str] = mapped_column(default="pending")
    requested_by: Mapped[str]
    created_at: Mapped[CreatedAt]
    decided_at: Mapped[datetime | None]
    decided_by: Mapped[str | None]
    answer: Mapped[str | None]
    """The operator's words."""

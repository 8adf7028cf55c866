from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base


class NetworkDiagnosisRow(Base):
    """The last look at a container's network from inside one of its replicas; earlier ones are in its activity."""

    __tablename__ = "network_diagnoses"
    __table_args__ = (
        CheckConstraint("state IN ('asked', 'done', 'failed')", name="state"),
        Index("ix_network_diagnoses_asked", "asked_at", postgresql_where=text("state = 'asked'")),
    )

    container_id: Mapped[str] = mapped_column(ForeignKey("containers.id"), primary_key=True)
    state: Mapped[str]
    asked_at: Mapped[datetime]
    asked_by: Mapped[str]
    finished_at: Mapped[datetime | None]
    replica_id: Mapped[str | None]
    node: Mapped[str | None]
    message: Mapped[str | None]
    """The whole of it in a few sentences, or why nothing could be found out."""
    findings: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """`schemas.Findings`."""

"""The requests that waited for a container to wake."""

from datetime import datetime

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base


class HeldRequestRow(Base):
    """Few: each gateway holds at most so many for a container. Kept as long as records of requests are."""

    __tablename__ = "held_requests"
    __table_args__ = (Index("ix_held_requests_arrived_at", "arrived_at"),)

    request_id: Mapped[str] = mapped_column(primary_key=True)
    container_id: Mapped[str]
    gateway_id: Mapped[str]
    arrived_at: Mapped[datetime]
    held_ms: Mapped[int]
    """Until it was sent on, or answered instead."""
    place: Mapped[int]
    """How many of its container's were held with it, itself included."""
    places: Mapped[int]
    """How many may be."""
    replica_id: Mapped[str | None]
    """Which answered it."""
    code: Mapped[str | None]
    """Why it was not sent on."""
    comments: Mapped[int] = mapped_column(default=0, server_default="0")
    """That kept its stream open."""

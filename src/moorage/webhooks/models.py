from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, func, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column
from sqlalchemy.types import String

from moorage.kit.database import Base, CreatedAt


class WebhookRow(Base):
    """Where an organization wants to hear of what happens in it."""

    __tablename__ = "webhooks"
    __table_args__ = (
        Index("ix_webhooks_organization_id", "organization_id"),
        CheckConstraint("format IN ('event', 'chat')", name="format"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    url: Mapped[str]
    events: Mapped[list[str]] = mapped_column(ARRAY(String))
    """Names such as `member.remove`, or all that begin alike: `container.*`, `*`."""
    format: Mapped[str] = mapped_column(server_default="event")
    """`event`: the signed event, for a program. `chat`: a sentence, for people."""
    sealed_secret: Mapped[bytes]
    created_by: Mapped[str]
    created_at: Mapped[CreatedAt]
    disabled_at: Mapped[datetime | None]
    disabled_reason: Mapped[str | None]


class DeliveryRow(Base):
    """One event for one webhook. A trigger on the records of what happened inserts it, in the same transaction."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index("ix_webhook_deliveries_webhook_id_created_at", "webhook_id", "created_at", "id"),
        Index(
            "ix_webhook_deliveries_next_try_at",
            "next_try_at",
            postgresql_where=text("next_try_at IS NOT NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    event: Mapped[str]
    payload: Mapped[dict[str, Any]] = mapped_column(JSONB)
    created_at: Mapped[CreatedAt]
    next_try_at: Mapped[datetime | None] = mapped_column(server_default=func.now())
    """NULL once it was delivered or given up."""
    tries: Mapped[int] = mapped_column(server_default="0")
    delivered_at: Mapped[datetime | None]
    status: Mapped[int | None]
    """What the receiver answered the last time."""
    error: Mapped[str | None]

from datetime import datetime

from sqlalchemy import Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class MailRow(Base):
    """The outbox. Everything that says who or what is encrypted: sign-in codes pass through here."""

    __tablename__ = "mails"
    __table_args__ = (
        Index("ix_mails_created_at_id", "created_at", "id"),
        Index("ix_mails_next_try_at", "next_try_at", postgresql_where=text("next_try_at IS NOT NULL")),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    sealed: Mapped[bytes]
    """JSON of to, subject and text, encrypted."""
    created_at: Mapped[CreatedAt]
    next_try_at: Mapped[datetime | None] = mapped_column(server_default=func.now())
    """When to try to send it; NULL once it was sent, or refused for good."""
    tries: Mapped[int] = mapped_column(server_default="0")
    sent_at: Mapped[datetime | None]
    error: Mapped[str | None]
    """What the mail server said the last time, if it did not take it."""

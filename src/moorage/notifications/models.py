from datetime import datetime

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class MailRow(Base):
    """The outbox. Everything that says who or what is encrypted: sign-in codes pass through here."""

    __tablename__ = "mails"
    __table_args__ = (Index("ix_mails_created_at_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    sealed: Mapped[bytes]
    """JSON of to, subject and text, encrypted."""
    created_at: Mapped[CreatedAt]
    sent_at: Mapped[datetime | None]

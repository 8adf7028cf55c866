from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class SignInCodeRow(Base):
    """A six-digit code that was mailed. Kept for a day after it died, to count how many were asked for."""

    __tablename__ = "sign_in_codes"
    __table_args__ = (
        Index("ix_sign_in_codes_email_created_at", "email", "created_at"),
        CheckConstraint("tries_left >= 0", name="tries_not_negative"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    email: Mapped[str]
    code_hash: Mapped[bytes]
    tries_left: Mapped[int]
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]


class SignInLinkRow(Base):
    """A one-time link for one user, such as the one `moor up` prints for the operator."""

    __tablename__ = "sign_in_links"

    token_hash: Mapped[bytes] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"))
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime]

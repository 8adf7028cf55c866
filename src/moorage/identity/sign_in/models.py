from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class SignInCodeRow(Base):
    """A six-digit code that was mailed. It belongs to whoever asked for it, as far as that can be told (`origins.py`).
    Kept for a day after it died, to count how many were asked for."""

    __tablename__ = "sign_in_codes"
    __table_args__ = (
        Index("ix_sign_in_codes_email_created_at", "email", "created_at"),
        Index("ix_sign_in_codes_origin_created_at", "origin", "created_at"),
        CheckConstraint("tries_left >= 0", name="tries_not_negative"),
        CheckConstraint("tries_left_elsewhere >= 0", name="tries_elsewhere_not_negative"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    email: Mapped[str]
    code_hash: Mapped[bytes]
    origin: Mapped[str]
    by_stranger: Mapped[bool]
    """The origin was not known to the address."""
    tries_left: Mapped[int]
    """Of the same origin."""
    tries_left_elsewhere: Mapped[int]
    """Of all others together: a code may be asked for on one machine and entered on another."""
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]


class SignInGuessRow(Base):
    """A code that was entered and is not known to be right. Kept for an hour, to count them."""

    __tablename__ = "sign_in_guesses"
    __table_args__ = (Index("ix_sign_in_guesses_origin_created_at", "origin", "created_at"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    origin: Mapped[str]
    created_at: Mapped[CreatedAt]


class SignInSourceRow(Base):
    """Where somebody signed in with an address. Whoever asks from there for a code is no stranger to it."""

    __tablename__ = "sign_in_sources"

    email: Mapped[str] = mapped_column(primary_key=True)
    source: Mapped[str] = mapped_column(primary_key=True)
    last_at: Mapped[CreatedAt]


class SignInLinkRow(Base):
    """A one-time link for one user, such as the one `moor up` prints for the operator."""

    __tablename__ = "sign_in_links"

    token_hash: Mapped[bytes] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"))
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime]

from datetime import datetime

from sqlalchemy import CheckConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class UserRow(Base):
    __tablename__ = "users"
    __table_args__ = (
        UniqueConstraint("email"),
        CheckConstraint("length(email) BETWEEN 3 AND 254", name="email_length"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    email: Mapped[str]
    """As `kit.email.normalized` leaves it: trimmed, domain in lower case, local part untouched."""
    email_verified_at: Mapped[datetime | None]
    is_operator: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[CreatedAt]


class OperatorKeyRow(Base):
    """The operator's key, `moor_op_…`, as its SHA-256; the key itself lies in `$MOORAGE_HOME/operator-key`."""

    __tablename__ = "operator_keys"

    key_hash: Mapped[bytes] = mapped_column(primary_key=True)
    created_at: Mapped[CreatedAt]

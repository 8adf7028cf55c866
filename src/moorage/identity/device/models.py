from datetime import datetime

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class DeviceLoginRow(Base):
    """A command line that waits for somebody to approve it in a browser. It holds the device code, of which we keep the
    hash; the person types or follows the user code, which approves but signs nobody in."""

    __tablename__ = "device_logins"
    __table_args__ = (
        UniqueConstraint("user_code"),
        Index("ix_device_logins_source_expires_at", "source", "expires_at"),
        Index("ix_device_logins_expires_at", "expires_at"),
    )

    device_code_hash: Mapped[bytes] = mapped_column(primary_key=True)
    user_code: Mapped[str]
    client_name: Mapped[str]
    source: Mapped[str]
    """Where it asked from."""
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime]
    decided_by: Mapped[str | None] = mapped_column(ForeignKey("users.id"))
    approved: Mapped[bool] = mapped_column(default=False)

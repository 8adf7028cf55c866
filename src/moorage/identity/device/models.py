from datetime import datetime

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class DeviceLoginRow(Base):
    """A command line that waits for somebody to approve it in a browser. It holds the device code, of which we keep the
    hash; the person types or follows the user code, which approves but signs nobody in."""

    __tablename__ = "device_logins"
    __table_args__ = (UniqueConstraint("user_code"),)

    device_code_hash: Mapped[bytes] = mapped_column(primary_key=True)
    user_code: Mapped[str]
    client_name: Mapped[str]
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime]
    decided_by: Mapped[str | None] = mapped_column(ForeignKey("users.id"))
    approved: Mapped[bool] = mapped_column(default=False)

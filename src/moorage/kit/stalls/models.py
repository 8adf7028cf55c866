from datetime import datetime

from sqlalchemy import BigInteger, text
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base


class LoopStallsRow(Base):
    """How often the event loop of a role computed for long at a stretch, on one machine; it only grows."""

    __tablename__ = "loop_stalls"

    role: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str] = mapped_column(primary_key=True)
    stalls: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    longest_ms: Mapped[int] = mapped_column(server_default=text("0"))
    """Of the thread's own processor time."""
    longest_where: Mapped[str] = mapped_column(server_default=text("''"))
    last_at: Mapped[datetime | None]

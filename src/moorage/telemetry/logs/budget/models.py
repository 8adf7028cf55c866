from datetime import date

from sqlalchemy import BigInteger
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base


class LogVolumeRow(Base):
    """How much is stored of a container from a day (UTC) on which lines were written: kept with the lines, because to
    count them would mean to read them all."""

    __tablename__ = "log_volumes"

    container_id: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[date] = mapped_column(primary_key=True)
    bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    lines: Mapped[int] = mapped_column(BigInteger, default=0)
    dropped_lines: Mapped[int] = mapped_column(BigInteger, default=0)
    """That were stored and had to go for newer ones."""

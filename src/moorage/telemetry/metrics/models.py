"""Tables of what containers did. They refer to nothing: a container's figures outlive it until they are too old."""

from datetime import datetime

from sqlalchemy import BigInteger, Index, SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base


class ContainerSampleRow(Base):
    """`samples.Sample`: a second at one gateway. None for a second in which nothing happened."""

    __tablename__ = "container_samples"
    __table_args__ = (Index("ix_container_samples_container_id_at", "container_id", "at"),)

    at: Mapped[datetime] = mapped_column(primary_key=True)
    container_id: Mapped[str] = mapped_column(primary_key=True)
    gateway_id: Mapped[str] = mapped_column(primary_key=True)
    in_flight: Mapped[int]
    queued: Mapped[int]
    requests: Mapped[int]
    errors: Mapped[int]
    response_ms: Mapped[int]


class ContainerStepRow(Base):
    """`samples.Step`: 10 s or 60 s over all gateways."""

    __tablename__ = "container_steps"
    __table_args__ = (Index("ix_container_steps_container_id_at", "container_id", "step_s", "at"),)

    step_s: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    container_id: Mapped[str] = mapped_column(primary_key=True)
    in_flight_mean: Mapped[float]
    in_flight_max: Mapped[int]
    queued_mean: Mapped[float]
    requests: Mapped[int] = mapped_column(BigInteger)
    errors: Mapped[int] = mapped_column(BigInteger)
    response_ms: Mapped[float]


class GatewayReportRow(Base):
    """A time during which a gateway reported every second. A gap between two of them is a time in which it was silent,
    and in which a missing sample says nothing."""

    __tablename__ = "gateway_reports"

    gateway_id: Mapped[str] = mapped_column(primary_key=True)
    since: Mapped[datetime] = mapped_column(primary_key=True)
    until: Mapped[datetime]
    """The last second that it reported."""

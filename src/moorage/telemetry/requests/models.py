"""Tables of requests, each with a partition for every day (UTC) on which rows were written. They refer to nothing:
what happened outlives its container. `written_at` is chosen by the gateway for a whole batch, so that a batch whose
commit was not confirmed cannot be written twice."""

from datetime import datetime

from sqlalchemy import BigInteger, Index, SmallInteger, String
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base


class RequestRecordRow(Base):
    """`record.RequestRecord`, of the errors and of as many others as are kept."""

    __tablename__ = "request_records"
    __table_args__ = (
        Index("ix_request_records_container_id_started_at", "container_id", "started_at", "request_id"),
        {"postgresql_partition_by": "RANGE (written_at)"},
    )

    request_id: Mapped[str] = mapped_column(primary_key=True)
    written_at: Mapped[datetime] = mapped_column(primary_key=True)
    gateway_id: Mapped[str]
    project_id: Mapped[str]
    container_id: Mapped[str | None]
    key_id: Mapped[str]
    replica_id: Mapped[str | None]
    started_at: Mapped[datetime]
    queue_ms: Mapped[int | None]
    connect_ms: Mapped[int | None]
    first_byte_ms: Mapped[int | None]
    total_ms: Mapped[int]
    status: Mapped[int | None] = mapped_column(SmallInteger)
    request_bytes: Mapped[int] = mapped_column(BigInteger)
    response_bytes: Mapped[int] = mapped_column(BigInteger)
    ended: Mapped[str]
    retries: Mapped[int | None] = mapped_column(SmallInteger)
    method: Mapped[str | None]
    path: Mapped[str | None]


class RequestHistogramRow(Base):
    """Every request of a container that ended within 10 s at one gateway. There may be several rows for the same 10 s:
    they add up."""

    __tablename__ = "request_histograms"
    __table_args__ = ({"postgresql_partition_by": "RANGE (written_at)"},)

    container_id: Mapped[str] = mapped_column(primary_key=True)
    time: Mapped[datetime] = mapped_column(primary_key=True)
    """When the 10 s began."""
    gateway_id: Mapped[str] = mapped_column(primary_key=True)
    written_at: Mapped[datetime] = mapped_column(primary_key=True)
    statuses: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    """Six counts: without an answer, 1xx, 2xx, 3xx, 4xx, 5xx."""
    buckets: Mapped[list[int]] = mapped_column(ARRAY(SmallInteger))
    """Of `histogram.bucket_of`, by the time from the request's first byte to the answer's last."""
    counts: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    """One for each bucket."""
    first_byte_buckets: Mapped[list[int]] = mapped_column(ARRAY(SmallInteger), server_default="{}")
    """By the time from the request's first byte to the answer's, of those that were answered."""
    first_byte_counts: Mapped[list[int]] = mapped_column(ARRAY(BigInteger), server_default="{}")
    key_ids: Mapped[list[str]] = mapped_column(ARRAY(String), server_default="{}")
    key_counts: Mapped[list[int]] = mapped_column(ARRAY(BigInteger), server_default="{}")
    """How many of them came with each key. What is missing to all of them came before this was counted, or with more keys at once
    than are told apart."""

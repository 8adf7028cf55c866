from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, Double, Index, false, text, true
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from moorage.engines.base import LOCAL_ENGINE
from moorage.kit.database import Base


class InstanceTypeRow(Base):
    __tablename__ = "instance_types"
    __table_args__ = (
        CheckConstraint("price_per_hour_microusd > 0", name="costs_something"),
        CheckConstraint("vcpu_millis >= 250 AND memory_bytes > 0 AND disk_bytes > 0", name="sizes"),
        CheckConstraint("(gpu_model IS NULL) = (gpu_count = 0) AND gpu_count >= 0", name="gpus"),
        CheckConstraint("infrastructure IN ('operator', 'community')", name="infrastructure"),
    )

    name: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    """The order in which people see them: small and cheap first."""
    gpu_model: Mapped[str | None]
    gpu_count: Mapped[int] = mapped_column(default=0)
    vcpu_millis: Mapped[int]
    memory_bytes: Mapped[int] = mapped_column(BigInteger)
    disk_bytes: Mapped[int] = mapped_column(BigInteger)
    price_per_hour_microusd: Mapped[int] = mapped_column(BigInteger)
    infrastructure: Mapped[str] = mapped_column(default="operator")
    enabled: Mapped[bool] = mapped_column(default=True, server_default=true())
    """Offered for new settings; what runs on it already may go on when it is not."""


class NodeRow(Base):
    """A machine that replicas run on, as its engine last described it."""

    __tablename__ = "nodes"
    __table_args__ = (Index("ix_nodes_infrastructure_lot", "infrastructure", "lot"),)

    engine: Mapped[str] = mapped_column(primary_key=True, default=LOCAL_ENGINE, server_default=LOCAL_ENGINE)
    name: Mapped[str] = mapped_column(primary_key=True)
    infrastructure: Mapped[str]
    architecture: Mapped[str]
    cpu_millis: Mapped[int] = mapped_column(BigInteger)
    memory_bytes: Mapped[int] = mapped_column(BigInteger)
    gpus: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    gpu_driver: Mapped[str | None]
    cuda_version: Mapped[str | None]
    engine_identity: Mapped[str | None]
    closed_because: Mapped[str | None]
    images: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    """That were pulled and are kept."""
    images_bytes: Mapped[int] = mapped_column(BigInteger, default=0, server_default=text("0"))
    gpu_handover: Mapped[str] = mapped_column(default="none", server_default=text("'none'"))
    gpu_handover_reason: Mapped[str | None]
    findings: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, default=list, server_default=text("'[]'"))
    """`base.HostFinding`s: what its doctor found."""
    weaknesses: Mapped[list[str]] = mapped_column(JSONB, default=list, server_default=text("'[]'"))
    seen_at: Mapped[datetime]
    schedulable: Mapped[bool] = mapped_column(default=True, server_default=true())
    """Whether its engine takes new replicas there."""
    ready: Mapped[bool] = mapped_column(default=True, server_default=true())
    """Its engine answers. Noted only where there is another machine."""
    unready_since: Mapped[datetime | None]
    """When its engine last answered."""
    cordoned_at: Mapped[datetime | None]
    """When the operator said that nothing new starts there."""
    draining_at: Mapped[datetime | None]
    """When the operator said that what runs there moves elsewhere."""
    owner: Mapped[str | None]
    """The organization that lends it; None: the operator's."""
    on_probation: Mapped[bool] = mapped_column(default=False, server_default=false())
    """It has yet to show that it stays: never a container's only one."""
    empty_by: Mapped[datetime | None]
    """Its owner wants it back: what is there by then is ended."""
    lot: Mapped[float] = mapped_column(Double, server_default=text("random()"))
    """Its place among the others: whoever wants some machines at random reads those behind one."""

"""What starts took, as it was measured: what is known of how long the next one will take."""

from sqlalchemy import BigInteger, CheckConstraint, Identity, Index
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class MeasuredStepRow(Base):
    """Of a container that may be gone by now; it goes when replicas of that time do."""

    __tablename__ = "measured_steps"
    __table_args__ = (
        Index("ix_measured_steps_organization_id_at", "organization_id", "at"),
        Index("ix_measured_steps_step_at", "step", "at"),
        CheckConstraint("step IN ('pull', 'download', 'load', 'again')", name="step"),
        CheckConstraint("bytes > 0 AND took_s > 0", name="measured"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[CreatedAt]
    organization_id: Mapped[str]
    infrastructure: Mapped[str]
    """Of the machine."""
    instance_type: Mapped[str]
    image: Mapped[str]
    """As its settings name it."""
    step: Mapped[str]
    """`measuring.Step`."""
    bytes: Mapped[int] = mapped_column(BigInteger)
    took_s: Mapped[float]

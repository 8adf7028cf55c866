from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class BankTransferRow(Base):
    """Money that was announced. The operator says what arrived, if it did."""

    __tablename__ = "bank_transfers"
    __table_args__ = (
        UniqueConstraint("reference"),
        Index("ix_bank_transfers_organization_id_created_at", "organization_id", "created_at", "id"),
        Index("ix_bank_transfers_created_at_id", "created_at", "id"),
        CheckConstraint("transfer IN ('local', 'international')", name="transfer"),
        CheckConstraint("state IN ('pending', 'confirmed', 'expired')", name="state"),
        CheckConstraint("(state = 'confirmed') = (received_microusd IS NOT NULL)", name="confirmed_received"),
        CheckConstraint("amount_microusd > 0 AND received_microusd > 0", name="amounts"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    reference: Mapped[str]
    transfer: Mapped[str]
    amount_microusd: Mapped[int] = mapped_column(BigInteger)
    received_microusd: Mapped[int | None] = mapped_column(BigInteger)
    """May be more or less than was announced."""
    state: Mapped[str]
    requested_by: Mapped[str]
    created_at: Mapped[CreatedAt]
    decided_at: Mapped[datetime | None]

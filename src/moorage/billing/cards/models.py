from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class CardPaymentRow(Base):
    """A top-up by card: a page of the payment provider, and what came of it."""

    __tablename__ = "card_payments"
    __table_args__ = (
        UniqueConstraint("checkout_session_id"),
        Index("ix_card_payments_organization_id_created_at", "organization_id", "created_at", "id"),
        CheckConstraint("amount_microusd > 0", name="amount"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    amount_microusd: Mapped[int] = mapped_column(BigInteger)
    checkout_session_id: Mapped[str | None]
    checkout_url: Mapped[str | None]
    requested_by: Mapped[str]
    created_at: Mapped[CreatedAt]
    paid_at: Mapped[datetime | None]

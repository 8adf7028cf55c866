from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class CardPaymentRow(Base):
    """A top-up by card: a page of the payment provider, and what came of it."""

    __tablename__ = "card_payments"
    __table_args__ = (
        UniqueConstraint("checkout_session_id"),
        Index("ix_card_payments_organization_id_created_at", "organization_id", "created_at", "id"),
        CheckConstraint("amount_microusd > 0", name="amount"),
        # One at a time: whoever finds it under way goes on with it instead of making another.
        Index(
            "uq_card_payments_under_way",
            "organization_id",
            unique=True,
            postgresql_where=text("automatic AND paid_at IS NULL AND failed_at IS NULL"),
        ),
        Index("ix_card_payments_payment_intent_id", "payment_intent_id"),
        Index("ix_card_payments_ask_at", "ask_at", postgresql_where=text("ask_at IS NOT NULL")),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    amount_microusd: Mapped[int] = mapped_column(BigInteger)
    checkout_session_id: Mapped[str | None]
    checkout_url: Mapped[str | None]
    requested_by: Mapped[str]
    created_at: Mapped[CreatedAt]
    paid_at: Mapped[datetime | None]
    automatic: Mapped[bool] = mapped_column(default=False)
    """With a saved card and nobody present."""
    payment_method_id: Mapped[str | None]
    """Which one, at the provider."""
    failed_at: Mapped[datetime | None]
    failure_code: Mapped[str | None]
    payment_intent_id: Mapped[str | None]
    """The payment at the provider, once there is one."""
    ask_at: Mapped[datetime | None]
    """When the provider is asked what became of it; None when nothing more can."""


class UnknownCardPaymentRow(Base):
    """A payment for somebody who is not known here. The operator was told when it was first seen."""

    __tablename__ = "unknown_card_payments"

    payment_intent_id: Mapped[str] = mapped_column(primary_key=True)
    top_up_id: Mapped[str]
    organization_id: Mapped[str | None]
    amount_microusd: Mapped[int] = mapped_column(BigInteger)
    created_at: Mapped[CreatedAt]


class SavedCardRow(Base):
    """An organization as the provider's customer, and what is shown of the card that is kept there."""

    __tablename__ = "saved_cards"
    __table_args__ = (UniqueConstraint("customer_id"),)

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    customer_id: Mapped[str]
    payment_method_id: Mapped[str | None]
    """None: no card is saved."""
    brand: Mapped[str | None]
    last4: Mapped[str | None]
    expires_month: Mapped[int | None]
    expires_year: Mapped[int | None]
    asked_at: Mapped[datetime | None]
    """When the provider was last asked; an answer to an older question is not written over a newer one."""

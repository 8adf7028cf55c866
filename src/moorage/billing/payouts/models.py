from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class PayoutAccountRow(Base):
    """Where an organization is sent what it earned. Its row is locked by whoever asks for a payout, decides about one, or
    changes it."""

    __tablename__ = "payout_accounts"

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    sealed_details: Mapped[bytes]
    shown_account: Mapped[str]
    """The last characters of the account, for people to know it by."""
    changed_at: Mapped[datetime]
    changed_by: Mapped[str]


class PayoutAccountHashRow(Base):
    """An account that an organization asked to be paid at, at any time: two that have one in common belong together. To name one
    is not enough: anybody can name an owner's, and would take from them what was earned by it."""

    __tablename__ = "payout_account_hashes"

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    account_hash: Mapped[bytes] = mapped_column(primary_key=True)


class PayoutRow(Base):
    """Money that somebody asked for. The operator says when it was sent."""

    __tablename__ = "payouts"
    __table_args__ = (
        CheckConstraint("state IN ('requested', 'confirmed', 'refused')", name="state"),
        CheckConstraint("amount_microusd > 0", name="amount"),
        CheckConstraint("(state = 'requested') = (decided_at IS NULL)", name="decided"),
        Index(
            "uq_payouts_requested",
            "organization_id",
            unique=True,
            postgresql_where=text("state = 'requested'"),
        ),
        Index("ix_payouts_organization_id_created_at", "organization_id", "created_at", "id"),
        Index("ix_payouts_created_at_id", "created_at", "id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    amount_microusd: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str]
    sealed_details: Mapped[bytes]
    """Where to, as it was when it was asked for."""
    shown_account: Mapped[str]
    requested_by: Mapped[str]
    created_at: Mapped[CreatedAt]
    decided_at: Mapped[datetime | None]
    reference: Mapped[str | None]
    """Of the transfer, as the operator wrote it."""
    reason: Mapped[str | None]
    """Why it was refused."""

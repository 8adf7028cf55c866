"""Tables of what owners of machines earn. Amounts are beside the ledger's entries, which say the same; the online check compares."""

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class EarningRow(Base):
    """What one replica earned its machine's owner in one hour. What was served is written once; what it is worth may fall."""

    __tablename__ = "earnings"
    __table_args__ = (
        CheckConstraint("card_microusd >= 0 AND transfer_microusd >= 0", name="amounts"),
        CheckConstraint(
            "100 * (card_microusd + transfer_microusd) <= price_microusd * share_percent", name="share"
        ),
        CheckConstraint("served_us > 0 AND served_us <= length_us", name="served"),
        Index("ix_earnings_owner_organization_id_hour_ended_at", "owner_organization_id", "hour_ended_at"),
        Index("ix_earnings_look_at", "look_at", postgresql_where=text("look_at IS NOT NULL")),
        Index("ix_earnings_machine_id", "machine_id"),
    )

    hour_id: Mapped[str] = mapped_column(primary_key=True)
    replica_id: Mapped[str] = mapped_column(primary_key=True)
    owner_organization_id: Mapped[str]
    buyer_organization_id: Mapped[str]
    machine_id: Mapped[str]
    hour_began_at: Mapped[datetime]
    hour_ended_at: Mapped[datetime]
    served_us: Mapped[int] = mapped_column(BigInteger)
    length_us: Mapped[int] = mapped_column(BigInteger)
    """Of the hour; both in microseconds."""
    price_microusd: Mapped[int] = mapped_column(BigInteger)
    """Of the hour."""
    share_percent: Mapped[int]
    """As the setting was then."""
    card_microusd: Mapped[int] = mapped_column(BigInteger)
    """Earned, of what was paid by card."""
    transfer_microusd: Mapped[int] = mapped_column(BigInteger)
    card_payable_at: Mapped[datetime]
    transfer_payable_at: Mapped[datetime]
    card_matured_at: Mapped[datetime | None]
    """When it was looked at for the last time and became payable; until then it is held."""
    transfer_matured_at: Mapped[datetime | None]
    void_reason: Mapped[str | None]
    """Why what was held is worth nothing: `rules.Void`."""
    corrections: Mapped[int] = mapped_column(default=0, server_default="0")
    """Transactions after the first."""
    look_at: Mapped[datetime | None]
    """When to look again what it is worth."""
    created_at: Mapped[CreatedAt]


class CardFingerprintRow(Base):
    """A card that an organization paid with, or saved, at any time."""

    __tablename__ = "card_fingerprints"

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(primary_key=True)

from datetime import date, datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, func
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base


class AutoTopUpRow(Base):
    """What an admin agreed to: that the saved card is charged by itself. Without a row, it never is."""

    __tablename__ = "auto_top_ups"
    __table_args__ = (
        CheckConstraint("threshold_microusd > 0 AND amount_microusd > 0", name="amounts"),
        CheckConstraint("monthly_cap_microusd >= amount_microusd", name="cap"),
    )

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    threshold_microusd: Mapped[int] = mapped_column(BigInteger)
    amount_microusd: Mapped[int] = mapped_column(BigInteger)
    monthly_cap_microusd: Mapped[int] = mapped_column(BigInteger)
    agreed_by: Mapped[str]
    agreed_at: Mapped[datetime] = mapped_column(server_default=func.now())
    """Failures before this do not count."""
    cap_told_month: Mapped[date | None]
    """When its admins last heard that the cap is reached."""

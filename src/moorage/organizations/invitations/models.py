from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class InvitationRow(Base):
    """An address that may join. The link's token is known to its mail alone; we keep its hash."""

    __tablename__ = "invitations"
    __table_args__ = (
        UniqueConstraint("token_hash"),
        Index(
            "uq_invitations_open",
            "organization_id",
            "email",
            unique=True,
            postgresql_where=text("closed_at IS NULL"),
        ),
        Index("ix_invitations_organization_id_created_at", "organization_id", "created_at", "id"),
        Index("ix_invitations_email", "email"),
        Index("ix_invitations_invited_by_created_at", "invited_by", "created_at"),
        CheckConstraint("role IN ('admin', 'user')", name="role"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    project_id: Mapped[str | None] = mapped_column(ForeignKey("projects.id"))
    email: Mapped[str]
    """As `kit.email.normalized` leaves it; compared exactly."""
    role: Mapped[str]
    token_hash: Mapped[bytes]
    invited_by: Mapped[str] = mapped_column(ForeignKey("users.id"))
    times_sent: Mapped[int] = mapped_column(default=1)
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime]
    closed_at: Mapped[datetime | None]
    """When it was accepted, withdrawn, or replaced by a newer one."""

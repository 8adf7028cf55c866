from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class AuditRecordRow(Base):
    """Who did what to whom in an organization, or to the installation. Written once, never changed."""

    __tablename__ = "audit_records"
    __table_args__ = (Index("ix_audit_records_organization_id_at", "organization_id", "at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"))
    """None: the installation's own, such as the price of an instance type."""
    at: Mapped[CreatedAt]
    actor: Mapped[str]
    """`usr_…`, `key_…`, or `system`."""
    action: Mapped[str]
    """A noun and a verb, e.g. `member.remove`."""
    target: Mapped[str]
    """The id of what it was done to."""
    details: Mapped[dict[str, Any]] = mapped_column(JSONB)

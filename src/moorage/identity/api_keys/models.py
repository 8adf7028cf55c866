from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class ApiKeyRow(Base):
    """A project's key, as its SHA-256. The project's table lies above this package, so the foreign key
    is set by the migration alone."""

    __tablename__ = "api_keys"
    __table_args__ = (
        UniqueConstraint("key_hash"),
        Index("ix_api_keys_project_id_created_at", "project_id", "created_at"),
        CheckConstraint("scope IN ('inference', 'manage')", name="scope"),
        CheckConstraint("length(name) BETWEEN 1 AND 63", name="name_length"),
        CheckConstraint("requests_per_minute > 0", name="requests_per_minute"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str]
    name: Mapped[str]
    scope: Mapped[str]
    key_hash: Mapped[bytes]
    hint: Mapped[str]
    """The last four characters, so that a person can tell keys apart."""
    created_by: Mapped[str | None]
    created_at: Mapped[CreatedAt]
    expires_at: Mapped[datetime | None]
    disabled_at: Mapped[datetime | None]
    """Refused while this is set; unlike a revoked key, it can be enabled again."""
    revoked_at: Mapped[datetime | None]
    replaces: Mapped[str | None]
    """The key that this one was made to take over from."""
    requests_per_minute: Mapped[int | None]
    """A limit of its own at the endpoints, besides the one that every key has."""


class ApiKeyUseRow(Base):
    """When a key was used last, and from where. Apart from the key, because whatever changes there makes every gateway
    read the keys anew."""

    __tablename__ = "api_key_uses"

    key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id", ondelete="CASCADE"), primary_key=True)
    last_used_at: Mapped[datetime]
    last_used_from: Mapped[str]

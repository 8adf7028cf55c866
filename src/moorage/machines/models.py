from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt

_PRESENT = text("state <> 'removed'")


class MachineRow(Base):
    """A machine that joins by one command. It stays when it is removed, so that its address in the tunnel is nobody else's."""

    __tablename__ = "machines"
    __table_args__ = (
        UniqueConstraint("address"),
        Index("uq_machines_name", "name", unique=True, postgresql_where=_PRESENT),
        Index("uq_machines_public_key", "public_key", unique=True, postgresql_where=_PRESENT),
        CheckConstraint(
            "state IN ('joining', 'active', 'paused', 'draining', 'lost', 'removed')", name="state"
        ),
        CheckConstraint("(state = 'lost') = (state_before_loss IS NOT NULL)", name="state_before_loss"),
        CheckConstraint("replicas >= 0", name="replicas"),
        CheckConstraint(
            "state IN ('joining', 'removed') OR (name IS NOT NULL AND address IS NOT NULL AND port IS NOT NULL "
            "AND public_key IS NOT NULL AND sealed_credential IS NOT NULL AND secret_hash IS NOT NULL)",
            name="joined_is_complete",
        ),
        CheckConstraint(
            "state <> 'removed' OR (sealed_credential IS NULL AND secret_hash IS NULL)",
            name="removed_has_no_secret",
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str | None]
    """By which nodes and placements know it; null until it has joined, unless the operator named it."""
    infrastructure: Mapped[str]
    state: Mapped[str]
    state_before_loss: Mapped[str | None]
    state_since: Mapped[CreatedAt]
    message: Mapped[str | None]
    """One sentence about the state."""
    address: Mapped[str | None]
    """In the tunnel."""
    port: Mapped[int | None]
    """Of its node role, there."""
    public_key: Mapped[str | None]
    key_renewed_at: Mapped[datetime | None]
    sealed_credential: Mapped[bytes | None]
    """What Moorage presents to it."""
    secret_hash: Mapped[bytes | None]
    """Of what it presents to Moorage."""
    facts: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
    """What it said about itself when it joined: claims."""
    replicas: Mapped[int] = mapped_column(server_default="0")
    """That have not left it, as `containers` wrote it down last."""
    created_by: Mapped[str]
    created_at: Mapped[CreatedAt]
    joined_at: Mapped[datetime | None]
    seen_at: Mapped[datetime | None]
    """When it last answered."""
    untold_since: Mapped[datetime | None]
    """When it was lost, or came back, and the operator has not been told yet."""


class JoinTokenRow(Base):
    __tablename__ = "machine_join_tokens"
    __table_args__ = (UniqueConstraint("machine_id"),)

    token_hash: Mapped[bytes] = mapped_column(primary_key=True)
    machine_id: Mapped[str] = mapped_column(ForeignKey("machines.id"))
    expires_at: Mapped[datetime]
    used_with: Mapped[bytes | None]
    """The hash of what was brought with it; null while nobody used it."""


class HubRow(Base):
    """A gateway host's end of the tunnel."""

    __tablename__ = "tunnel_hubs"
    __table_args__ = (UniqueConstraint("address"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    """The gateway's."""
    address: Mapped[str]
    public_key: Mapped[str]
    endpoint: Mapped[str]
    """`host:port`, as machines dial it."""
    seen_at: Mapped[CreatedAt]
    error: Mapped[str | None]
    """Why this end is not as it should be."""

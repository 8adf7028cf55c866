from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt

_PRESENT = text("state <> 'removed'")


class MachineRow(Base):
    """A machine that joins by one command. It stays when it is removed, for what it earned and for the records that name it."""

    __tablename__ = "machines"
    __table_args__ = (
        UniqueConstraint("address"),
        Index("uq_machines_name", "name", unique=True, postgresql_where=_PRESENT),
        Index("uq_machines_public_key", "public_key", unique=True, postgresql_where=_PRESENT),
        Index("ix_machines_owner_organization_id", "owner_organization_id"),
        CheckConstraint(
            "state IN ('joining', 'verifying', 'probation', 'active', 'paused', 'draining', 'lost', 'banned', 'removed')",
            name="state",
        ),
        CheckConstraint("standing IN ('verifying', 'probation', 'active')", name="standing"),
        CheckConstraint(
            "infrastructure = 'operator' OR owner_organization_id IS NOT NULL", name="lent_has_owner"
        ),
        CheckConstraint("(state = 'lost') = (state_before_loss IS NOT NULL)", name="state_before_loss"),
        CheckConstraint("replicas >= 0", name="replicas"),
        CheckConstraint(
            "state IN ('joining', 'banned', 'removed') OR (name IS NOT NULL AND address IS NOT NULL AND port IS NOT NULL "
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
    owner_organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"))
    """Who is paid for what it serves; null: it is the operator's own. Ask `ownership.py`."""
    state: Mapped[str]
    state_before_loss: Mapped[str | None]
    standing: Mapped[str] = mapped_column(default="active", server_default="active")
    """What it is when nobody stops it."""
    stopped_by: Mapped[str | None]
    """Whose word paused or drains it."""
    paused_until: Mapped[datetime | None]
    """Then it is resumed by itself."""
    empty_by: Mapped[datetime | None]
    """Its owner wants it back: what is there by then is ended."""
    proven_at: Mapped[datetime | None]
    """When it last proved what it claims."""
    proof_due_at: Mapped[datetime | None]
    """When it has to again; null: at once, if it never did."""
    proof_failure: Mapped[str | None]
    held_because: Mapped[str | None]
    """Why Moorage itself paused it, or the operator banned it."""
    state_since: Mapped[CreatedAt]
    message: Mapped[str | None]
    """One sentence about the state."""
    address: Mapped[str | None]
    """In the tunnel. Of a removed one it rests for a while, and is then free."""
    port: Mapped[int | None]
    """Of its node role, there."""
    public_key: Mapped[str | None]
    key_renewed_at: Mapped[datetime | None]
    sealed_credential: Mapped[bytes | None]
    """What Moorage presents to it."""
    secret_hash: Mapped[bytes | None]
    """Of what it presents to Moorage."""
    facts: Mapped[dict[str, Any]] = mapped_column(JSONB, server_default="{}")
    """What it said about itself when it joined: claims. And as `proven`, which it cannot say itself, what it has shown since."""
    replicas: Mapped[int] = mapped_column(server_default="0")
    """That have not left it, as `containers` wrote it down last."""
    created_by: Mapped[str]
    """Who added it, or printed its last command."""
    created_at: Mapped[CreatedAt]
    joined_at: Mapped[datetime | None]
    seen_at: Mapped[datetime | None]
    """When it last answered."""
    untold_since: Mapped[datetime | None]
    """When it was lost, or came back, and the operator has not been told yet."""


class StateChangeRow(Base):
    """What a machine was from when on: how reliable it is follows from that."""

    __tablename__ = "machine_state_changes"
    __table_args__ = (Index("ix_machine_state_changes_at", "at"),)

    machine_id: Mapped[str] = mapped_column(ForeignKey("machines.id", ondelete="CASCADE"), primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    state: Mapped[str]
    before_loss: Mapped[str | None]


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


class ServedSpanRow(Base):
    """A time in which one gateway had a replica of an owned machine routed and not failing, by the database's clock: what its
    owner is paid for. Several gateways say so of the same seconds; whoever counts takes the union."""

    __tablename__ = "served_spans"
    __table_args__ = (
        CheckConstraint("ended_at >= began_at", name="ends_after_it_began"),
        Index(
            "uq_served_spans_open",
            "gateway_id",
            "replica_id",
            unique=True,
            postgresql_where=text("ended_at IS NULL"),
        ),
        Index("ix_served_spans_container_id_began_at", "container_id", "began_at"),
        Index("ix_served_spans_ended_at", "ended_at"),
    )

    gateway_id: Mapped[str] = mapped_column(primary_key=True)
    replica_id: Mapped[str] = mapped_column(primary_key=True)
    began_at: Mapped[datetime] = mapped_column(primary_key=True)
    ended_at: Mapped[datetime | None]
    """Null while it lasts: then it reaches as far as its gateway was seen."""
    # Of the replica and of the machine as they were then: both may be gone when it is paid.
    container_id: Mapped[str]
    slot: Mapped[int]
    instance_type: Mapped[str]
    machine_id: Mapped[str]
    owner_organization_id: Mapped[str]


class MachineVoidRow(Base):
    """What this machine served until then, and is not payable yet, is worth nothing to its owner."""

    __tablename__ = "machine_voids"
    __table_args__ = (
        Index("ix_machine_voids_unheard", "at", postgresql_where=text("heard_at IS NULL")),
        CheckConstraint("reason IN ('proof_failed', 'operator')", name="reason"),
    )

    machine_id: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[CreatedAt] = mapped_column(primary_key=True)
    reason: Mapped[str]
    heard_at: Mapped[datetime | None]
    """When whoever pays owners heard of it."""

"""Tables of versions: what a container's settings were, who made them so, and what became of it."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, SmallInteger
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class VersionRow(Base):
    """Settings and secrets of a version never change; what is known of its image and its fate is added."""

    __tablename__ = "container_versions"
    __table_args__ = (
        CheckConstraint("outcome IN ('serving', 'replaced', 'failed', 'rolled_back')", name="outcome"),
        CheckConstraint("strategy IN ('replace', 'rolling', 'canary')", name="strategy"),
    )

    container_id: Mapped[str] = mapped_column(
        ForeignKey("containers.id", ondelete="CASCADE"), primary_key=True
    )
    version: Mapped[int] = mapped_column(primary_key=True)
    created_at: Mapped[CreatedAt]
    created_by: Mapped[str]
    """`usr_…`, `key_…`, or `system`."""
    settings: Mapped[dict[str, Any]] = mapped_column(JSONB)
    secrets: Mapped[bytes]
    """Sealed as those in the container's row are."""
    image: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """As `trial.py` keeps it: what it ran last, to go back to that and not to what its tag says by then."""
    changes: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    """Against the version before it, secrets masked."""
    strategy: Mapped[str | None]
    """None: it was started from rest."""
    outcome: Mapped[str | None]
    """None until it has served or was given up."""
    reason: Mapped[str | None]
    """A sentence."""
    served_s: Mapped[float] = mapped_column(default=0.0, server_default="0")
    """Up to `served_since`."""
    served_since: Mapped[datetime | None]
    """Since when at least one replica of it is at the endpoint."""


class VersionFiguresRow(Base):
    """What the two versions of a rollout answered at one gateway since it began."""

    __tablename__ = "version_figures"

    container_id: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    gateway_id: Mapped[str] = mapped_column(primary_key=True)
    answers: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    errors: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    """Answers of 500 and above, and connections that broke without one."""


class VersionResponseTimesRow(Base):
    """How long their answers took, of those that were no errors."""

    __tablename__ = "version_response_times"

    container_id: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    gateway_id: Mapped[str] = mapped_column(primary_key=True)
    bucket: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    """`kit.histogram`."""
    answers: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")

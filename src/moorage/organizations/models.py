from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class OrganizationRow(Base):
    __tablename__ = "organizations"
    __table_args__ = (
        CheckConstraint("length(name) BETWEEN 1 AND 63", name="name_length"),
        CheckConstraint("(deleted_at IS NULL) = (deleted_by IS NULL)", name="deleted_by_somebody"),
        Index(
            "ix_organizations_deleted_by",
            "deleted_by",
            "deleted_at",
            postgresql_where=text("deleted_at IS NOT NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    created_at: Mapped[CreatedAt]
    suspended_at: Mapped[datetime | None]
    deleted_at: Mapped[datetime | None]
    """The row stays: the ledger, its invoices and the audit log name it. Nobody is its member any more."""
    deleted_by: Mapped[str | None]


class MemberRow(Base):
    __tablename__ = "organization_members"
    __table_args__ = (CheckConstraint("role IN ('admin', 'user')", name="role"),)

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"), primary_key=True, index=True)
    role: Mapped[str]
    joined_at: Mapped[CreatedAt]
    notifications_read_until: Mapped[datetime | None]
    """The time of the newest that they saw; NULL: none since they joined."""


class PastMembershipRow(Base):
    """Who left an organization, and when last: the owner of a machine does not stop being one's colleague by leaving for an hour."""

    __tablename__ = "past_memberships"

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(primary_key=True)
    left_at: Mapped[CreatedAt]


class ProjectRow(Base):
    __tablename__ = "projects"
    __table_args__ = (
        Index(
            "uq_projects_organization_id_name",
            "organization_id",
            "name",
            unique=True,
            postgresql_where=text("deleted_at IS NULL"),
        ),
        Index("ix_projects_organization_id_created_at", "organization_id", "created_at"),
        CheckConstraint("length(name) BETWEEN 1 AND 63", name="name_length"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    name: Mapped[str]
    created_at: Mapped[CreatedAt]
    replica_limit: Mapped[int] = mapped_column(default=30, server_default=text("30"))
    """The most replicas that one of its containers may have; the operator raises it."""
    deleted_at: Mapped[datetime | None]
    """The row stays: the ledger and the logs name it."""


class ProjectMemberRow(Base):
    """Which projects a `user` joined; an `admin` is in all of them without a row."""

    __tablename__ = "project_members"

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"), primary_key=True, index=True)
    joined_at: Mapped[CreatedAt]

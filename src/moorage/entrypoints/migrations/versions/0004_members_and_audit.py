"""Invitations, the audit log, and projects that can be removed"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("projects", sa.Column("deleted_at", TIME, nullable=True))
    op.drop_constraint("uq_projects_organization_id_name", "projects", type_="unique")
    op.create_index(
        "uq_projects_organization_id_name",
        "projects",
        ["organization_id", "name"],
        unique=True,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "invitations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=True),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("invited_by", sa.String(), nullable=False),
        sa.Column("times_sent", sa.Integer(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("closed_at", TIME, nullable=True),
        sa.CheckConstraint("role IN ('admin', 'user')", name=op.f("ck_invitations_role")),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name=op.f("fk_invitations_organization_id_organizations"),
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_invitations_project_id_projects")
        ),
        sa.ForeignKeyConstraint(["invited_by"], ["users.id"], name=op.f("fk_invitations_invited_by_users")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_invitations")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_invitations_token_hash")),
    )
    op.create_index(
        "uq_invitations_open",
        "invitations",
        ["organization_id", "email"],
        unique=True,
        postgresql_where=sa.text("closed_at IS NULL"),
    )
    op.create_index(
        "ix_invitations_organization_id_created_at", "invitations", ["organization_id", "created_at", "id"]
    )
    op.create_index("ix_invitations_email", "invitations", ["email"])
    op.create_table(
        "audit_records",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("details", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name=op.f("fk_audit_records_organization_id_organizations"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_records")),
    )
    op.create_index("ix_audit_records_organization_id_at", "audit_records", ["organization_id", "at", "id"])


def downgrade() -> None:
    op.drop_table("audit_records")
    op.drop_table("invitations")
    op.drop_index("uq_projects_organization_id_name", table_name="projects")
    # The version before knows no removed projects: they come back, empty, under a name that is free.
    op.execute(
        "UPDATE projects SET name = left(name, 42) || '-' || right(id, 20) WHERE deleted_at IS NOT NULL"
    )
    op.create_unique_constraint("uq_projects_organization_id_name", "projects", ["organization_id", "name"])
    op.drop_column("projects", "deleted_at")

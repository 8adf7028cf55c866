"""Requests for more replicas than a project's limit"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "projects", sa.Column("replica_limit", sa.Integer(), server_default=sa.text("30"), nullable=False)
    )
    op.create_table(
        "replica_limit_requests",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("container_id", sa.String(), nullable=True),
        sa.Column("replicas", sa.Integer(), nullable=False),
        sa.Column("note", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("requested_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("decided_by", sa.String(), nullable=True),
        sa.Column("answer", sa.String(), nullable=True),
        sa.CheckConstraint(
            "state IN ('pending', 'approved', 'refused')", name=op.f("ck_replica_limit_requests_state")
        ),
        sa.CheckConstraint("replicas BETWEEN 1 AND 1000", name=op.f("ck_replica_limit_requests_replicas")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_replica_limit_requests_project_id_projects")
        ),
        sa.ForeignKeyConstraint(
            ["container_id"],
            ["containers.id"],
            name=op.f("fk_replica_limit_requests_container_id_containers"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replica_limit_requests")),
    )
    op.create_index(
        "uq_replica_limit_requests_open_container",
        "replica_limit_requests",
        ["container_id"],
        unique=True,
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "ix_replica_limit_requests_project_id_created_at",
        "replica_limit_requests",
        ["project_id", "created_at"],
        unique=False,
    )


def downgrade() -> None:
    op.drop_table("replica_limit_requests")
    op.drop_column("projects", "replica_limit")

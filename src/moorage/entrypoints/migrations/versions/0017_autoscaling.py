"""Decisions of the autoscaler"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "autoscaling_decisions",
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("replicas_before", sa.Integer(), nullable=False),
        sa.Column("replicas", sa.Integer(), nullable=False),
        sa.Column("wanted", sa.Integer(), nullable=False),
        sa.Column("limited_by", sa.String(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("inputs", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(
            ["container_id"], ["containers.id"], name=op.f("fk_autoscaling_decisions_container_id_containers")
        ),
        sa.PrimaryKeyConstraint("container_id", "at", name=op.f("pk_autoscaling_decisions")),
    )


def downgrade() -> None:
    op.drop_table("autoscaling_decisions")

"""Looks at containers' networks"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0020"
down_revision: str | None = "0019"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "network_diagnoses",
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("asked_by", sa.String(), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("replica_id", sa.String(), nullable=True),
        sa.Column("node", sa.String(), nullable=True),
        sa.Column("message", sa.String(), nullable=True),
        sa.Column("findings", postgresql.JSONB(), nullable=True),
        sa.CheckConstraint("state IN ('asked', 'done', 'failed')", name=op.f("ck_network_diagnoses_state")),
        sa.ForeignKeyConstraint(
            ["container_id"], ["containers.id"], name=op.f("fk_network_diagnoses_container_id_containers")
        ),
        sa.PrimaryKeyConstraint("container_id", name=op.f("pk_network_diagnoses")),
    )
    op.create_index(
        "ix_network_diagnoses_asked",
        "network_diagnoses",
        ["asked_at"],
        postgresql_where=sa.text("state = 'asked'"),
    )


def downgrade() -> None:
    op.drop_table("network_diagnoses")

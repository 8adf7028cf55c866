"""What replicas use of processor, memory and GPUs"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0019"
down_revision: str | None = "0018"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "replica_usage",
        sa.Column("step_s", sa.SmallInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("replica_id", sa.String(), nullable=False),
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("figures", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("step_s", "at", "replica_id", name=op.f("pk_replica_usage")),
    )
    op.create_index("ix_replica_usage_container_id_at", "replica_usage", ["container_id", "step_s", "at"])


def downgrade() -> None:
    op.drop_index("ix_replica_usage_container_id_at", table_name="replica_usage")
    op.drop_table("replica_usage")

"""Doubt about a machine is a fact with an end; a port is free once every gateway has read that its replica ended"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0032"
down_revision: str | None = "0030"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "machine_doubts",
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("missing", sa.Integer(), nullable=False),
        sa.Column("expected", sa.Integer(), nullable=False),
        sa.Column("gone_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_machine_doubts")),
    )
    op.add_column("nodes", sa.Column("engine_identity", sa.String()))
    op.add_column("replicas", sa.Column("engine_identity", sa.String()))
    op.add_column("replicas", sa.Column("missing_since", sa.DateTime(timezone=True)))
    op.add_column("replicas", sa.Column("port_idle_since", sa.DateTime(timezone=True)))
    op.execute(
        "UPDATE replicas SET port_idle_since = now() "
        "WHERE state IN ('collected', 'removed') AND port_released_at IS NULL"
    )


def downgrade() -> None:
    op.execute(
        "UPDATE replicas SET port_released_at = now() WHERE state = 'removed' AND port_released_at IS NULL"
    )
    for column in ("port_idle_since", "missing_since", "engine_identity"):
        op.drop_column("replicas", column)
    op.drop_column("nodes", "engine_identity")
    op.drop_table("machine_doubts")

"""Among many machines, replicas are found by their engine, and some machines without reading all"""

from collections.abc import Sequence

from alembic import op

revision: str = "0098"
down_revision: str | None = "0097"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("CREATE INDEX ix_replicas_engine ON replicas (engine) WHERE state <> 'removed'")
    op.execute("ALTER TABLE nodes ADD COLUMN lot double precision NOT NULL DEFAULT random()")
    op.execute("CREATE INDEX ix_nodes_infrastructure_lot ON nodes (infrastructure, lot)")


def downgrade() -> None:
    op.execute("ALTER TABLE nodes DROP COLUMN lot")
    op.execute("DROP INDEX ix_replicas_engine")

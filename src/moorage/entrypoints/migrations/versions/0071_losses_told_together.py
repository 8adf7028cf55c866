"""Machines that are lost together are told of in one mail"""

from collections.abc import Sequence

from alembic import op

revision: str = "0071"
down_revision: str | None = "0070"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE machines ADD COLUMN untold_since timestamptz")


def downgrade() -> None:
    op.execute("ALTER TABLE machines DROP COLUMN untold_since")

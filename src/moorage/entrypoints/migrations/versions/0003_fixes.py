"""The change of a setting that a failure offers"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("containers", sa.Column("failure_fix", postgresql.JSONB(), nullable=True))
    op.add_column("replicas", sa.Column("fix", postgresql.JSONB(), nullable=True))


def downgrade() -> None:
    op.drop_column("replicas", "fix")
    op.drop_column("containers", "failure_fix")

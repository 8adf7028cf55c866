"""Machines that a deployment stays away from"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0021"
down_revision: str | None = "0020"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("containers", sa.Column("avoidance", postgresql.JSONB(), nullable=True))


def downgrade() -> None:
    op.drop_column("containers", "avoidance")

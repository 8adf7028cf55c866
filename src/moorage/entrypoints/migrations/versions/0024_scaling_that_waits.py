"""Scaling that waits for the operator"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0024"
down_revision: str | None = "0023"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("replica_limit_requests", sa.Column("scaling", postgresql.JSONB(), nullable=True))


def downgrade() -> None:
    op.drop_column("replica_limit_requests", "scaling")

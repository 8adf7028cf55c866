"""How much is stored of each container's log"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0025"
down_revision: str | None = "0024"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    # Lines that are there already are not counted: they go with their days.
    op.create_table(
        "log_volumes",
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("lines", sa.BigInteger(), nullable=False),
        sa.Column("dropped_lines", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("container_id", "day", name=op.f("pk_log_volumes")),
    )


def downgrade() -> None:
    op.drop_table("log_volumes")

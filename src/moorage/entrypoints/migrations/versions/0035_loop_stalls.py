"""How often the event loop of each role stalled; how many people somebody invited lately"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0035"
down_revision: str | None = "0034"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "loop_stalls",
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("stalls", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("longest_ms", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("longest_where", sa.String(), server_default=sa.text("''"), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("role", "host", name=op.f("pk_loop_stalls")),
    )
    op.create_index("ix_invitations_invited_by_created_at", "invitations", ["invited_by", "created_at"])


def downgrade() -> None:
    op.drop_index("ix_invitations_invited_by_created_at", "invitations")
    op.drop_table("loop_stalls")

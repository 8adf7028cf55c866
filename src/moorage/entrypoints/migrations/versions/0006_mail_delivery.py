"""Mails are sent, and tried again"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    # Without a default for the rows that are there: codes of before this upgrade are of no use to anybody.
    op.add_column("mails", sa.Column("next_try_at", sa.DateTime(timezone=True), nullable=True))
    op.alter_column("mails", "next_try_at", server_default=sa.func.now())
    op.add_column("mails", sa.Column("tries", sa.Integer(), server_default="0", nullable=False))
    op.add_column("mails", sa.Column("error", sa.String(), nullable=True))
    op.create_index(
        "ix_mails_next_try_at",
        "mails",
        ["next_try_at"],
        postgresql_where=sa.text("next_try_at IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_mails_next_try_at", "mails")
    for column in ("error", "tries", "next_try_at"):
        op.drop_column("mails", column)

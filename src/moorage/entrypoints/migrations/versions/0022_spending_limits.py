"""Spending limits, and what was told about money"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0022"
down_revision: str | None = "0021"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "spending_limits",
        sa.Column("scope_id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("limit_microusd", sa.BigInteger(), nullable=False),
        sa.Column("told_month", sa.Date(), nullable=True),
        sa.Column("told_percent", sa.Integer(), nullable=False),
        sa.CheckConstraint("limit_microusd >= 0", name=op.f("ck_spending_limits_not_negative")),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name=op.f("fk_spending_limits_organization_id_organizations"),
        ),
        sa.PrimaryKeyConstraint("scope_id", name=op.f("pk_spending_limits")),
    )
    op.create_index("ix_spending_limits_organization_id", "spending_limits", ["organization_id"])
    op.add_column("credit_accounts", sa.Column("low_credit_told_h", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("credit_accounts", "low_credit_told_h")
    op.drop_table("spending_limits")

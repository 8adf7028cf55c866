"""Saved cards and automatic top-ups"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0026"
down_revision: str | None = "0025"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_UNDER_WAY = "automatic AND paid_at IS NULL AND failed_at IS NULL"


def upgrade() -> None:
    op.add_column(
        "card_payments", sa.Column("automatic", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.alter_column("card_payments", "automatic", server_default=None)
    op.add_column("card_payments", sa.Column("payment_method_id", sa.String(), nullable=True))
    op.add_column("card_payments", sa.Column("failed_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("card_payments", sa.Column("failure_code", sa.String(), nullable=True))
    op.create_index(
        "uq_card_payments_under_way",
        "card_payments",
        ["organization_id"],
        unique=True,
        postgresql_where=sa.text(_UNDER_WAY),
    )
    _create_saved_cards()
    _create_auto_top_ups()


def _create_saved_cards() -> None:
    op.create_table(
        "saved_cards",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("customer_id", sa.String(), nullable=False),
        sa.Column("payment_method_id", sa.String(), nullable=True),
        sa.Column("brand", sa.String(), nullable=True),
        sa.Column("last4", sa.String(), nullable=True),
        sa.Column("expires_month", sa.Integer(), nullable=True),
        sa.Column("expires_year", sa.Integer(), nullable=True),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name=op.f("fk_saved_cards_organization_id_organizations"),
        ),
        sa.PrimaryKeyConstraint("organization_id", name=op.f("pk_saved_cards")),
        sa.UniqueConstraint("customer_id", name=op.f("uq_saved_cards_customer_id")),
    )


def _create_auto_top_ups() -> None:
    op.create_table(
        "auto_top_ups",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("threshold_microusd", sa.BigInteger(), nullable=False),
        sa.Column("amount_microusd", sa.BigInteger(), nullable=False),
        sa.Column("monthly_cap_microusd", sa.BigInteger(), nullable=False),
        sa.Column("agreed_by", sa.String(), nullable=False),
        sa.Column("agreed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("cap_told_month", sa.Date(), nullable=True),
        sa.CheckConstraint(
            "threshold_microusd > 0 AND amount_microusd > 0", name=op.f("ck_auto_top_ups_amounts")
        ),
        sa.CheckConstraint("monthly_cap_microusd >= amount_microusd", name=op.f("ck_auto_top_ups_cap")),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name=op.f("fk_auto_top_ups_organization_id_organizations"),
        ),
        sa.PrimaryKeyConstraint("organization_id", name=op.f("pk_auto_top_ups")),
    )


def downgrade() -> None:
    op.drop_table("auto_top_ups")
    op.drop_table("saved_cards")
    op.drop_index("uq_card_payments_under_way", "card_payments")
    for column in ("failure_code", "failed_at", "payment_method_id", "automatic"):
        op.drop_column("card_payments", column)

"""Bank transfers and card payments"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "bank_transfers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("reference", sa.String(), nullable=False),
        sa.Column("transfer", sa.String(), nullable=False),
        sa.Column("amount_microusd", sa.BigInteger(), nullable=False),
        sa.Column("received_microusd", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("requested_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("transfer IN ('local', 'international')", name=op.f("ck_bank_transfers_transfer")),
        sa.CheckConstraint(
            "state IN ('pending', 'confirmed', 'expired')", name=op.f("ck_bank_transfers_state")
        ),
        sa.CheckConstraint(
            "(state = 'confirmed') = (received_microusd IS NOT NULL)",
            name=op.f("ck_bank_transfers_confirmed_received"),
        ),
        sa.CheckConstraint(
            "amount_microusd > 0 AND received_microusd > 0", name=op.f("ck_bank_transfers_amounts")
        ),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name=op.f("fk_bank_transfers_organization_id_organizations"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bank_transfers")),
        sa.UniqueConstraint("reference", name=op.f("uq_bank_transfers_reference")),
    )
    op.create_index(
        "ix_bank_transfers_organization_id_created_at",
        "bank_transfers",
        ["organization_id", "created_at", "id"],
    )
    op.create_index("ix_bank_transfers_created_at_id", "bank_transfers", ["created_at", "id"])
    _create_card_payments()


def _create_card_payments() -> None:
    op.create_table(
        "card_payments",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("amount_microusd", sa.BigInteger(), nullable=False),
        sa.Column("checkout_session_id", sa.String(), nullable=True),
        sa.Column("checkout_url", sa.String(), nullable=True),
        sa.Column("requested_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("paid_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("amount_microusd > 0", name=op.f("ck_card_payments_amount")),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name=op.f("fk_card_payments_organization_id_organizations"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_card_payments")),
        sa.UniqueConstraint("checkout_session_id", name=op.f("uq_card_payments_checkout_session_id")),
    )
    op.create_index(
        "ix_card_payments_organization_id_created_at",
        "card_payments",
        ["organization_id", "created_at", "id"],
    )


def downgrade() -> None:
    op.drop_table("card_payments")
    op.drop_table("bank_transfers")

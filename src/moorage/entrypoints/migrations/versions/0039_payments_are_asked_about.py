"""The provider is asked about payments whose event was lost"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0039"
down_revision: str | None = "0038"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("card_payments", sa.Column("payment_intent_id", sa.String(), nullable=True))
    op.add_column("card_payments", sa.Column("ask_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_card_payments_ask_at", "card_payments", ["ask_at"], postgresql_where=sa.text("ask_at IS NOT NULL")
    )
    # Also those from before: their event may be the one that was lost.
    op.execute("UPDATE card_payments SET ask_at = now() WHERE checkout_session_id IS NOT NULL")


def downgrade() -> None:
    op.drop_index("ix_card_payments_ask_at", "card_payments")
    op.drop_column("card_payments", "ask_at")
    op.drop_column("card_payments", "payment_intent_id")

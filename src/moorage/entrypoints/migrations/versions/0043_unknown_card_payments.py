"""Card payments for somebody who is not known here"""

from collections.abc import Sequence

from alembic import op

revision: str = "0043"
down_revision: str | None = "0042"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("""
        CREATE TABLE unknown_card_payments (
            payment_intent_id varchar NOT NULL,
            top_up_id varchar NOT NULL,
            organization_id varchar,
            amount_microusd bigint NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT pk_unknown_card_payments PRIMARY KEY (payment_intent_id)
        )
    """)
    # To find what the rows do not know among what the provider does.
    op.execute("CREATE INDEX ix_card_payments_payment_intent_id ON card_payments (payment_intent_id)")


def downgrade() -> None:
    op.execute("DROP INDEX ix_card_payments_payment_intent_id")
    op.execute("DROP TABLE unknown_card_payments")

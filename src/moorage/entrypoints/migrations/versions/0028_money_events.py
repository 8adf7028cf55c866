"""Webhooks hear of money that comes and goes"""

from collections.abc import Sequence

from alembic import op

revision: str = "0028"
down_revision: str | None = "0027"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# Each bought hour is a transaction too: those are in the usage, and would be thousands of events.
_MONEY = """
CREATE FUNCTION announce_money() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM announce_to_webhooks(
        NEW.organization_id, 'billing.booked',
        jsonb_build_object('id', NEW.id, 'at', NEW.at, 'kind', NEW.kind, 'details', NEW.details,
            'amount_microusd', coalesce((
                SELECT amount_microusd FROM ledger_entries
                WHERE transaction_id = NEW.id AND account = 'credit:' || NEW.organization_id
            ), 0))
    );
    RETURN NULL;
END $$
"""


def upgrade() -> None:
    op.execute(_MONEY)
    op.execute(
        "CREATE TRIGGER announce AFTER INSERT ON ledger_transactions FOR EACH ROW "
        "WHEN (NEW.kind <> 'usage') EXECUTE FUNCTION announce_money()"
    )


def downgrade() -> None:
    op.execute("DROP TRIGGER announce ON ledger_transactions")
    op.execute("DROP FUNCTION announce_money()")

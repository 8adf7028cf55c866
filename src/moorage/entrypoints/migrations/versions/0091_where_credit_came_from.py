"""Credit is spent by where it came from, given credit first, and each hour says which of it paid for it"""

from collections.abc import Sequence

from alembic import op

revision: str = "0091"
down_revision: str | None = "0090"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# Nobody wrote down what the hours of the past were paid with. What is left counts as given, so no owner of a machine is ever
# paid from money that may have been a gift.
CREDIT_OF_THE_PAST = """
INSERT INTO credit_lots (id, organization_id, source, amount_microusd)
SELECT 'past_' || organization_id, organization_id, 'given', available_microusd + held_microusd
FROM credit_accounts WHERE available_microusd + held_microusd > 0
"""


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE credit_lots (
            number bigint GENERATED ALWAYS AS IDENTITY NOT NULL,
            id varchar NOT NULL CONSTRAINT pk_credit_lots PRIMARY KEY,
            organization_id varchar NOT NULL
                CONSTRAINT fk_credit_lots_organization_id_organizations REFERENCES organizations (id),
            source varchar NOT NULL,
            amount_microusd bigint NOT NULL,
            spent_microusd bigint NOT NULL DEFAULT 0,
            withdrawn_microusd bigint NOT NULL DEFAULT 0,
            taken_back_microusd bigint NOT NULL DEFAULT 0,
            CONSTRAINT ck_credit_lots_source CHECK (source IN ('given', 'card', 'transfer')),
            CONSTRAINT ck_credit_lots_not_below_zero
                CHECK (spent_microusd >= 0 AND withdrawn_microusd >= 0 AND taken_back_microusd >= 0),
            CONSTRAINT ck_credit_lots_used_once CHECK (spent_microusd + withdrawn_microusd <= amount_microusd),
            CONSTRAINT ck_credit_lots_taken_back_once CHECK (taken_back_microusd <= amount_microusd)
        )
        """
    )
    op.execute(
        "CREATE INDEX ix_credit_lots_left ON credit_lots (organization_id) "
        "WHERE spent_microusd + withdrawn_microusd < amount_microusd"
    )
    op.execute(
        """
        CREATE TABLE hour_funds (
            hour_id varchar NOT NULL,
            lot_id varchar NOT NULL,
            begins_microusd bigint NOT NULL,
            amount_microusd bigint NOT NULL,
            CONSTRAINT pk_hour_funds PRIMARY KEY (hour_id, lot_id),
            CONSTRAINT ck_hour_funds_amounts CHECK (begins_microusd >= 0 AND amount_microusd > 0)
        )
        """
    )
    op.execute("CREATE INDEX ix_hour_funds_lot_id ON hour_funds (lot_id)")
    op.execute(
        """
        CREATE TABLE credit_withdrawals (
            transaction_id varchar NOT NULL,
            lot_id varchar NOT NULL,
            amount_microusd bigint NOT NULL,
            CONSTRAINT pk_credit_withdrawals PRIMARY KEY (transaction_id, lot_id),
            CONSTRAINT ck_credit_withdrawals_amount CHECK (amount_microusd > 0)
        )
        """
    )
    op.execute(
        """
        CREATE TABLE hour_moves (
            hour_id varchar NOT NULL,
            moved_at timestamptz NOT NULL,
            from_slot integer NOT NULL,
            CONSTRAINT pk_hour_moves PRIMARY KEY (hour_id, moved_at)
        )
        """
    )
    op.execute(
        "ALTER TABLE hours ADD COLUMN begins_at timestamptz, ADD COLUMN length interval, "
        "ADD COLUMN settled_at timestamptz"
    )
    op.execute(
        "CREATE INDEX ix_hours_unsettled ON hours (expires_at) WHERE settled_at IS NULL AND begins_at IS NOT NULL"
    )
    op.execute(CREDIT_OF_THE_PAST)


def downgrade() -> None:
    op.execute("ALTER TABLE hours DROP COLUMN begins_at, DROP COLUMN length, DROP COLUMN settled_at")
    for table in ("hour_moves", "credit_withdrawals", "hour_funds", "credit_lots"):
        op.execute(f"DROP TABLE {table}")

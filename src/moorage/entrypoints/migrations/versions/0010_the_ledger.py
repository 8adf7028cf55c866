"""The ledger: credit, transactions and entries, hours; replicas and containers that cannot be paid"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

WRITTEN_ONCE = ("ledger_transactions", "ledger_entries")

REFUSE_CHANGES = """
CREATE FUNCTION ledger_refuse_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is written once: book a correction instead', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END $$
"""

# The entries of a transaction are inserted together, so each statement must add up to zero by itself.
REQUIRE_BALANCE = """
CREATE FUNCTION ledger_require_balance() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM new_entries GROUP BY transaction_id HAVING sum(amount_microusd) <> 0) THEN
        RAISE EXCEPTION 'the entries of a transaction must add up to zero' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$
"""

# Who signed up before there was credit gets theirs now, with the organization that they made first.
CREDIT_OF_THE_FIRST = """
WITH first AS (
    SELECT DISTINCT ON (m.user_id) m.user_id, m.organization_id
    FROM organization_members m WHERE m.role = 'admin' ORDER BY m.user_id, m.joined_at, m.organization_id
), transactions AS (
    INSERT INTO ledger_transactions (id, key, kind, organization_id, details)
    SELECT 'txn' || substr(user_id, 4), 'initial-credit:' || user_id, 'initial_credit', organization_id,
        jsonb_build_object('user_id', user_id)
    FROM first
), accounts AS (
    INSERT INTO credit_accounts (organization_id, available_microusd, held_microusd)
    SELECT organization_id, count(*) * 20000000, 0 FROM first GROUP BY organization_id
)
INSERT INTO ledger_entries (transaction_id, account, amount_microusd)
SELECT 'txn' || substr(user_id, 4), 'grants', -20000000 FROM first
UNION ALL
SELECT 'txn' || substr(user_id, 4), 'credit:' || organization_id, 20000000 FROM first
"""


def upgrade() -> None:
    op.create_table(
        "credit_accounts",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("available_microusd", sa.BigInteger(), nullable=False),
        sa.Column("held_microusd", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("available_microusd >= 0", name=op.f("ck_credit_accounts_available_not_negative")),
        sa.CheckConstraint("held_microusd >= 0", name=op.f("ck_credit_accounts_held_not_negative")),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name=op.f("fk_credit_accounts_organization_id_organizations"),
        ),
        sa.PrimaryKeyConstraint("organization_id", name=op.f("pk_credit_accounts")),
    )
    op.create_table(
        "ledger_transactions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("details", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ledger_transactions")),
        sa.UniqueConstraint("key", name=op.f("uq_ledger_transactions_key")),
    )
    op.create_index(
        "ix_ledger_transactions_organization_id_at", "ledger_transactions", ["organization_id", "at", "id"]
    )
    op.create_index("ix_ledger_transactions_kind_at", "ledger_transactions", ["kind", "at"])
    op.create_table(
        "ledger_entries",
        sa.Column("transaction_id", sa.String(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("amount_microusd", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("amount_microusd <> 0", name=op.f("ck_ledger_entries_moves_something")),
        sa.PrimaryKeyConstraint("transaction_id", "account", name=op.f("pk_ledger_entries")),
    )
    op.create_index("ix_ledger_entries_account", "ledger_entries", ["account"])
    _create_hours()
    op.add_column("containers", sa.Column("stop_reason", sa.String(), nullable=True))
    op.add_column("replicas", sa.Column("unfunded_at", sa.DateTime(timezone=True), nullable=True))
    op.execute(REFUSE_CHANGES)
    op.execute(REQUIRE_BALANCE)
    op.execute(
        "CREATE TRIGGER require_balance AFTER INSERT ON ledger_entries REFERENCING NEW TABLE AS new_entries "
        "FOR EACH STATEMENT EXECUTE FUNCTION ledger_require_balance()"
    )
    op.execute(CREDIT_OF_THE_FIRST)
    for table in WRITTEN_ONCE:
        op.execute(
            f"CREATE TRIGGER refuse_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_changes()"
        )
        op.execute(f"REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM CURRENT_USER, PUBLIC")


def _create_hours() -> None:
    op.create_table(
        "hours",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("instance_type", sa.String(), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("price_microusd", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("held_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("bought_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("renews", sa.String(), nullable=True),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("state IN ('held', 'paid', 'released')", name=op.f("ck_hours_state")),
        sa.CheckConstraint("price_microusd > 0", name=op.f("ck_hours_costs_something")),
        sa.CheckConstraint(
            "(state = 'paid') = (bought_at IS NOT NULL) AND (bought_at IS NULL) = (expires_at IS NULL)",
            name=op.f("ck_hours_paid_has_times"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hours")),
        sa.UniqueConstraint("renews", name=op.f("uq_hours_renews")),
    )
    op.create_index(
        "uq_hours_held_slot",
        "hours",
        ["container_id", "slot"],
        unique=True,
        postgresql_where=sa.text("state = 'held'"),
    )
    op.create_index(
        "ix_hours_container_id", "hours", ["container_id"], postgresql_where=sa.text("state <> 'released'")
    )
    op.create_index("ix_hours_organization_id_bought_at", "hours", ["organization_id", "bought_at"])
    op.create_index("ix_hours_due_at", "hours", ["due_at"], postgresql_where=sa.text("due_at IS NOT NULL"))


def downgrade() -> None:
    op.drop_column("replicas", "unfunded_at")
    op.drop_column("containers", "stop_reason")
    for table in ("hours", "ledger_entries", "ledger_transactions", "credit_accounts"):
        op.drop_table(table)
    op.execute("DROP FUNCTION ledger_require_balance()")
    op.execute("DROP FUNCTION ledger_refuse_changes()")

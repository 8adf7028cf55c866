"""What owners of machines earn, where it is sent, and what keeps anybody from paying themselves"""

from collections.abc import Sequence

from alembic import op

revision: str = "0092"
down_revision: str | None = "0091"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# Each part of an hour is a transaction too, as the hour is: those would be thousands of events.
_ANNOUNCED = "NEW.kind NOT IN ('usage', 'earning')"
_MONEY = """
CREATE OR REPLACE FUNCTION announce_money() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM announce_to_webhooks(
        NEW.organization_id, 'billing.booked',
        jsonb_build_object('id', NEW.id, 'at', NEW.at, 'kind', NEW.kind, 'details', NEW.details,
            'amount_microusd', coalesce((
                SELECT amount_microusd FROM ledger_entries
                WHERE transaction_id = NEW.id AND account IN ({accounts})
            ), 0))
    );
    RETURN NULL;
END $$
"""
_TABLES = (
    *("payouts", "machine_voids", "earnings", "payout_account_hashes", "payout_accounts"),
    *("card_fingerprints", "past_memberships"),
)
_CREDIT, _EARNINGS = "'credit:' || NEW.organization_id", "'earnings:' || NEW.organization_id"


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE past_memberships (
            organization_id varchar NOT NULL
                CONSTRAINT fk_past_memberships_organization_id_organizations REFERENCES organizations (id),
            user_id varchar NOT NULL,
            left_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT pk_past_memberships PRIMARY KEY (organization_id, user_id)
        )
        """
    )
    op.execute(
        """
        CREATE TABLE card_fingerprints (
            organization_id varchar NOT NULL
                CONSTRAINT fk_card_fingerprints_organization_id_organizations REFERENCES organizations (id),
            fingerprint varchar NOT NULL,
            CONSTRAINT pk_card_fingerprints PRIMARY KEY (organization_id, fingerprint)
        )
        """
    )
    op.execute(
        "INSERT INTO card_fingerprints (organization_id, fingerprint) "
        "SELECT organization_id, card_fingerprint FROM initial_credits WHERE card_fingerprint IS NOT NULL"
    )
    op.execute(
        """
        CREATE TABLE payout_accounts (
            organization_id varchar NOT NULL CONSTRAINT pk_payout_accounts PRIMARY KEY
                CONSTRAINT fk_payout_accounts_organization_id_organizations REFERENCES organizations (id),
            sealed_details bytea NOT NULL,
            shown_account varchar NOT NULL,
            changed_at timestamptz NOT NULL,
            changed_by varchar NOT NULL
        )
        """
    )
    op.execute(
        """
        CREATE TABLE payout_account_hashes (
            organization_id varchar NOT NULL
                CONSTRAINT fk_payout_account_hashes_organization_id_organizations REFERENCES organizations (id),
            account_hash bytea NOT NULL,
            CONSTRAINT pk_payout_account_hashes PRIMARY KEY (organization_id, account_hash)
        )
        """
    )
    op.execute(
        """
        CREATE TABLE earnings (
            hour_id varchar NOT NULL,
            replica_id varchar NOT NULL,
            owner_organization_id varchar NOT NULL,
            buyer_organization_id varchar NOT NULL,
            machine_id varchar NOT NULL,
            hour_began_at timestamptz NOT NULL,
            hour_ended_at timestamptz NOT NULL,
            served_us bigint NOT NULL,
            length_us bigint NOT NULL,
            price_microusd bigint NOT NULL,
            share_percent integer NOT NULL,
            card_microusd bigint NOT NULL,
            transfer_microusd bigint NOT NULL,
            card_payable_at timestamptz NOT NULL,
            transfer_payable_at timestamptz NOT NULL,
            card_matured_at timestamptz,
            transfer_matured_at timestamptz,
            void_reason varchar,
            corrections integer NOT NULL DEFAULT 0,
            look_at timestamptz,
            created_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT pk_earnings PRIMARY KEY (hour_id, replica_id),
            CONSTRAINT ck_earnings_amounts CHECK (card_microusd >= 0 AND transfer_microusd >= 0),
            CONSTRAINT ck_earnings_share CHECK (
                100 * (card_microusd + transfer_microusd) <= price_microusd * share_percent),
            CONSTRAINT ck_earnings_served CHECK (served_us > 0 AND served_us <= length_us)
        )
        """
    )
    op.execute(
        "CREATE INDEX ix_earnings_owner_organization_id_hour_ended_at ON earnings (owner_organization_id, hour_ended_at)"
    )
    op.execute("CREATE INDEX ix_earnings_look_at ON earnings (look_at) WHERE look_at IS NOT NULL")
    op.execute("CREATE INDEX ix_earnings_machine_id ON earnings (machine_id)")
    op.execute(
        """
        CREATE TABLE machine_voids (
            machine_id varchar NOT NULL,
            at timestamptz NOT NULL DEFAULT now(),
            reason varchar NOT NULL,
            heard_at timestamptz,
            CONSTRAINT pk_machine_voids PRIMARY KEY (machine_id, at),
            CONSTRAINT ck_machine_voids_reason CHECK (reason IN ('proof_failed', 'operator'))
        )
        """
    )
    op.execute("CREATE INDEX ix_machine_voids_unheard ON machine_voids (at) WHERE heard_at IS NULL")
    op.execute(
        """
        CREATE TABLE payouts (
            id varchar NOT NULL CONSTRAINT pk_payouts PRIMARY KEY,
            organization_id varchar NOT NULL
                CONSTRAINT fk_payouts_organization_id_organizations REFERENCES organizations (id),
            amount_microusd bigint NOT NULL,
            state varchar NOT NULL,
            sealed_details bytea NOT NULL,
            shown_account varchar NOT NULL,
            requested_by varchar NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            decided_at timestamptz,
            reference varchar,
            reason varchar,
            CONSTRAINT ck_payouts_state CHECK (state IN ('requested', 'confirmed', 'refused')),
            CONSTRAINT ck_payouts_amount CHECK (amount_microusd > 0),
            CONSTRAINT ck_payouts_decided CHECK ((state = 'requested') = (decided_at IS NULL))
        )
        """
    )
    op.execute(
        "CREATE UNIQUE INDEX uq_payouts_requested ON payouts (organization_id) WHERE state = 'requested'"
    )
    op.execute(
        "CREATE INDEX ix_payouts_organization_id_created_at ON payouts (organization_id, created_at, id)"
    )
    op.execute("CREATE INDEX ix_payouts_created_at_id ON payouts (created_at, id)")
    op.execute("ALTER TABLE billing_documents DROP CONSTRAINT ck_billing_documents_kind")
    op.execute(
        "ALTER TABLE billing_documents ADD CONSTRAINT ck_billing_documents_kind "
        "CHECK (kind IN ('invoice', 'receipt', 'statement'))"
    )
    op.execute(_MONEY.format(accounts=f"{_CREDIT}, {_EARNINGS}"))
    op.execute("DROP TRIGGER announce ON ledger_transactions")
    op.execute(
        "CREATE TRIGGER announce AFTER INSERT ON ledger_transactions FOR EACH ROW "
        f"WHEN ({_ANNOUNCED}) EXECUTE FUNCTION announce_money()"
    )


def downgrade() -> None:
    op.execute("DROP TRIGGER announce ON ledger_transactions")
    op.execute(
        "CREATE TRIGGER announce AFTER INSERT ON ledger_transactions FOR EACH ROW "
        "WHEN (NEW.kind <> 'usage') EXECUTE FUNCTION announce_money()"
    )
    op.execute(_MONEY.format(accounts=_CREDIT))
    # Statements that were issued stay: they are written once. Nothing new may be one.
    op.execute("ALTER TABLE billing_documents DROP CONSTRAINT ck_billing_documents_kind")
    op.execute(
        "ALTER TABLE billing_documents ADD CONSTRAINT ck_billing_documents_kind "
        "CHECK (kind IN ('invoice', 'receipt')) NOT VALID"
    )
    for table in _TABLES:
        op.execute(f"DROP TABLE {table}")

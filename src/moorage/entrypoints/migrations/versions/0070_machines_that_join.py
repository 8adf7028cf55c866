"""Machines that join by one command: their rows, the tokens that let them in, the hubs of the tunnel"""

from collections.abc import Sequence

from alembic import op

revision: str = "0070"
down_revision: str | None = "0060"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE machines (
            id varchar NOT NULL CONSTRAINT pk_machines PRIMARY KEY,
            name varchar,
            infrastructure varchar NOT NULL,
            state varchar NOT NULL,
            state_before_loss varchar,
            state_since timestamptz NOT NULL DEFAULT now(),
            message varchar,
            address varchar CONSTRAINT uq_machines_address UNIQUE,
            port integer,
            public_key varchar,
            key_renewed_at timestamptz,
            sealed_credential bytea,
            secret_hash bytea,
            facts jsonb NOT NULL DEFAULT '{}',
            replicas integer NOT NULL DEFAULT 0,
            created_by varchar NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            joined_at timestamptz,
            seen_at timestamptz,
            CONSTRAINT ck_machines_state
                CHECK (state IN ('joining', 'active', 'paused', 'draining', 'lost', 'removed')),
            CONSTRAINT ck_machines_state_before_loss CHECK ((state = 'lost') = (state_before_loss IS NOT NULL)),
            CONSTRAINT ck_machines_replicas CHECK (replicas >= 0),
            CONSTRAINT ck_machines_joined_is_complete CHECK (
                state IN ('joining', 'removed') OR (name IS NOT NULL AND address IS NOT NULL AND port IS NOT NULL
                AND public_key IS NOT NULL AND sealed_credential IS NOT NULL AND secret_hash IS NOT NULL)),
            CONSTRAINT ck_machines_removed_has_no_secret
                CHECK (state <> 'removed' OR (sealed_credential IS NULL AND secret_hash IS NULL))
        )
        """
    )
    op.execute("CREATE UNIQUE INDEX uq_machines_name ON machines (name) WHERE state <> 'removed'")
    op.execute("CREATE UNIQUE INDEX uq_machines_public_key ON machines (public_key) WHERE state <> 'removed'")
    op.execute(
        """
        CREATE TABLE machine_join_tokens (
            token_hash bytea NOT NULL CONSTRAINT pk_machine_join_tokens PRIMARY KEY,
            machine_id varchar NOT NULL
                CONSTRAINT fk_machine_join_tokens_machine_id_machines REFERENCES machines (id)
                CONSTRAINT uq_machine_join_tokens_machine_id UNIQUE,
            expires_at timestamptz NOT NULL,
            used_with bytea
        )
        """
    )
    op.execute(
        """
        CREATE TABLE tunnel_hubs (
            id varchar NOT NULL CONSTRAINT pk_tunnel_hubs PRIMARY KEY,
            address varchar NOT NULL CONSTRAINT uq_tunnel_hubs_address UNIQUE,
            public_key varchar NOT NULL,
            endpoint varchar NOT NULL,
            seen_at timestamptz NOT NULL DEFAULT now(),
            error varchar
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE tunnel_hubs")
    op.execute("DROP TABLE machine_join_tokens")
    op.execute("DROP TABLE machines")

"""Machines have owners, and what gateways saw them serve is kept"""

from collections.abc import Sequence

from alembic import op

revision: str = "0090"
down_revision: str | None = "0088"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE machines ADD COLUMN owner_organization_id varchar "
        "CONSTRAINT fk_machines_owner_organization_id_organizations REFERENCES organizations (id)"
    )
    op.execute("CREATE INDEX ix_machines_owner_organization_id ON machines (owner_organization_id)")
    op.execute(
        """
        CREATE TABLE served_spans (
            gateway_id varchar NOT NULL,
            replica_id varchar NOT NULL,
            began_at timestamptz NOT NULL,
            ended_at timestamptz,
            container_id varchar NOT NULL,
            slot integer NOT NULL,
            instance_type varchar NOT NULL,
            machine_id varchar NOT NULL,
            owner_organization_id varchar NOT NULL,
            CONSTRAINT pk_served_spans PRIMARY KEY (gateway_id, replica_id, began_at),
            CONSTRAINT ck_served_spans_ends_after_it_began CHECK (ended_at >= began_at)
        )
        """
    )
    op.execute(
        "CREATE UNIQUE INDEX uq_served_spans_open ON served_spans (gateway_id, replica_id) WHERE ended_at IS NULL"
    )
    op.execute("CREATE INDEX ix_served_spans_container_id_began_at ON served_spans (container_id, began_at)")
    op.execute("CREATE INDEX ix_served_spans_ended_at ON served_spans (ended_at)")


def downgrade() -> None:
    op.execute("DROP TABLE served_spans")
    op.execute("ALTER TABLE machines DROP COLUMN owner_organization_id")

"""Gateways agree on who lets in how much of a limit"""

from collections.abc import Sequence

from alembic import op

revision: str = "0085"
down_revision: str | None = "0084"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE gateways ADD COLUMN limit_divisor integer, ADD COLUMN limits_agreed_at timestamptz"
    )
    op.execute(
        """
        CREATE TABLE limit_shares (
            scope varchar NOT NULL,
            subject varchar NOT NULL,
            gateway_id varchar NOT NULL,
            held integer NOT NULL,
            used integer NOT NULL,
            hungry boolean NOT NULL,
            CONSTRAINT pk_limit_shares PRIMARY KEY (scope, subject, gateway_id),
            CONSTRAINT fk_limit_shares_gateway_id_gateways FOREIGN KEY (gateway_id) REFERENCES gateways (id) ON DELETE CASCADE
        )
        """
    )
    op.execute("CREATE INDEX ix_limit_shares_gateway_id ON limit_shares (gateway_id)")


def downgrade() -> None:
    op.execute("DROP TABLE limit_shares")
    op.execute("ALTER TABLE gateways DROP COLUMN limits_agreed_at, DROP COLUMN limit_divisor")

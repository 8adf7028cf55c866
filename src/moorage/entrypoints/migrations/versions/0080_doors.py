"""Doors that prove whose replica is behind an address, and what signs for them"""

from collections.abc import Sequence

from alembic import op

revision: str = "0080"
down_revision: str | None = "0072"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE replicas ADD COLUMN has_door boolean NOT NULL DEFAULT false")
    op.execute(
        """
        CREATE TABLE door_authorities (
            number integer NOT NULL CONSTRAINT pk_door_authorities PRIMARY KEY,
            made_at timestamptz NOT NULL,
            certificate varchar NOT NULL,
            sealed_key bytea NOT NULL
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE door_authorities")
    op.execute("ALTER TABLE replicas DROP COLUMN has_door")

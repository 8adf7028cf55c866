"""Machines that are lent prove what they claim: when they last did, and when they have to again"""

from collections.abc import Sequence

from alembic import op

revision: str = "0097"
down_revision: str | None = "0096"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE machines ADD COLUMN proven_at timestamptz, ADD COLUMN proof_due_at timestamptz, "
        "ADD COLUMN proof_failure varchar"
    )


def downgrade() -> None:
    op.execute(
        "ALTER TABLE machines DROP COLUMN proven_at, DROP COLUMN proof_due_at, DROP COLUMN proof_failure"
    )

"""The installation knows the key that its secrets are sealed with, by its fingerprint, and when it was last backed up"""

from collections.abc import Sequence

from alembic import op

revision: str = "0072"
down_revision: str | None = "0071"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE installation ADD COLUMN sealing_key varchar, ADD COLUMN backed_up_at timestamptz")


def downgrade() -> None:
    op.execute("ALTER TABLE installation DROP COLUMN sealing_key, DROP COLUMN backed_up_at")

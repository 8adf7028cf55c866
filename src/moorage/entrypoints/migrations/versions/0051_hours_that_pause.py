"""A paid hour pauses while its slot is down through no fault of its owner"""

from collections.abc import Sequence

from alembic import op

revision: str = "0051"
down_revision: str | None = "0050"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE hours ADD COLUMN paused_at timestamptz")
    op.execute(
        "ALTER TABLE hours ADD CONSTRAINT ck_hours_paused_is_paid CHECK (paused_at IS NULL OR state = 'paid')"
    )


def downgrade() -> None:
    # What was paused has the rest of its time from now on.
    op.execute(
        "UPDATE hours SET expires_at = expires_at + (now() - paused_at), due_at = now() "
        "WHERE paused_at IS NOT NULL AND due_at IS NOT NULL"
    )
    op.execute("ALTER TABLE hours DROP CONSTRAINT ck_hours_paused_is_paid")
    op.execute("ALTER TABLE hours DROP COLUMN paused_at")

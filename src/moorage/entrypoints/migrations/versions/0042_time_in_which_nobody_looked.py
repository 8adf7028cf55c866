"""When the next pass over a container is wanted, and since when passes come in time"""

from collections.abc import Sequence

from alembic import op

revision: str = "0042"
down_revision: str | None = "0041"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE containers ADD COLUMN next_look_at timestamptz")
    op.execute("ALTER TABLE containers ADD COLUMN watched_since timestamptz")


def downgrade() -> None:
    op.execute("ALTER TABLE containers DROP COLUMN watched_since")
    op.execute("ALTER TABLE containers DROP COLUMN next_look_at")

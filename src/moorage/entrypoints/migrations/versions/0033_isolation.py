"""Whether a machine keeps containers apart is stored with it, and so is an image that has to be fetched again"""

from collections.abc import Sequence

from alembic import op

revision: str = "0033"
down_revision: str | None = "0032"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE nodes ADD COLUMN closed_because text")
    op.execute("ALTER TABLE nodes ADD COLUMN weaknesses jsonb NOT NULL DEFAULT '[]'")
    op.execute("ALTER TABLE containers ADD COLUMN image_lost_generation integer NOT NULL DEFAULT 0")


def downgrade() -> None:
    op.execute("ALTER TABLE containers DROP COLUMN image_lost_generation")
    op.execute("ALTER TABLE nodes DROP COLUMN weaknesses")
    op.execute("ALTER TABLE nodes DROP COLUMN closed_because")

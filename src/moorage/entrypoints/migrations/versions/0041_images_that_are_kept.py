"""How many images a machine keeps, and how large they are"""

from collections.abc import Sequence

from alembic import op

revision: str = "0041"
down_revision: str | None = "0040"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE nodes ADD COLUMN images integer NOT NULL DEFAULT 0")
    op.execute("ALTER TABLE nodes ADD COLUMN images_bytes bigint NOT NULL DEFAULT 0")


def downgrade() -> None:
    op.execute("ALTER TABLE nodes DROP COLUMN images_bytes")
    op.execute("ALTER TABLE nodes DROP COLUMN images")

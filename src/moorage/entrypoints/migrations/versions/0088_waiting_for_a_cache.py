"""How long a replica waited for another to fill its cache is known: it holds room that nobody pays for"""

from collections.abc import Sequence

from alembic import op

revision: str = "0088"
down_revision: str | None = "0087"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE replicas ADD COLUMN waits_since timestamptz, ADD COLUMN turn_at timestamptz")


def downgrade() -> None:
    op.execute("ALTER TABLE replicas DROP COLUMN waits_since, DROP COLUMN turn_at")

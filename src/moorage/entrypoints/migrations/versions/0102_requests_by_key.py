"""Which keys a container's requests came with, counted for every request"""

from collections.abc import Sequence

from alembic import op

revision: str = "0102"
down_revision: str | None = "0101"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    # With a constant default, Postgres rewrites no row; a gateway of the version before writes none of them.
    op.execute(
        "ALTER TABLE request_histograms ADD COLUMN key_ids varchar[] NOT NULL DEFAULT '{}', "
        "ADD COLUMN key_counts bigint[] NOT NULL DEFAULT '{}'"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE request_histograms DROP COLUMN key_ids, DROP COLUMN key_counts")

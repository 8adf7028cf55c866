"""A request's record says what was asked for and how often it was sent again, and those of a container are found by their time"""

from collections.abc import Sequence

from alembic import op

revision: str = "0086"
down_revision: str | None = "0085"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE request_records ADD COLUMN retries smallint, ADD COLUMN method varchar, ADD COLUMN path varchar"
    )
    op.execute(
        "CREATE INDEX ix_request_records_container_id_started_at "
        "ON request_records (container_id, started_at, request_id)"
    )


def downgrade() -> None:
    op.execute("DROP INDEX ix_request_records_container_id_started_at")
    op.execute("ALTER TABLE request_records DROP COLUMN retries, DROP COLUMN method, DROP COLUMN path")

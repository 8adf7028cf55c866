"""The activities that the audit log shows: what people and keys did to containers"""

from collections.abc import Sequence

from alembic import op

revision: str = "0104"
down_revision: str | None = "0103"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute(
        "CREATE INDEX ix_activities_actions ON activities (project_id, at, id) WHERE actor <> 'system'"
        " AND (kind <> 'container.wake' OR message IS DISTINCT FROM 'A request woke it.')"
    )


def downgrade() -> None:
    op.execute("DROP INDEX ix_activities_actions")

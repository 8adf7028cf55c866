"""Until when each member has read what they are told, and the activities that are worth telling"""

from collections.abc import Sequence

from alembic import op

revision: str = "0103"
down_revision: str | None = "0102"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE organization_members ADD COLUMN notifications_read_until timestamptz")
    op.execute(
        "CREATE INDEX ix_activities_worth_telling ON activities (project_id, at, id) WHERE "
        "kind IN ('container.draft_failed', 'container.restart_failed', 'replica_limit.approved', 'replica_limit.refused')"
        " OR (kind = 'container.state' AND details->>'to' = 'FAILED' AND details->>'from' IS DISTINCT FROM 'FAILED')"
        " OR (kind = 'container.stop' AND actor = 'system')"
    )


def downgrade() -> None:
    op.execute("DROP INDEX ix_activities_worth_telling")
    op.execute("ALTER TABLE organization_members DROP COLUMN notifications_read_until")

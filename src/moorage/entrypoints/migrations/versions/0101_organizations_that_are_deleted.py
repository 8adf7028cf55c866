"""Organizations that are deleted"""

from collections.abc import Sequence

from alembic import op

revision: str = "0101"
down_revision: str | None = "0100"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE organizations ADD COLUMN deleted_at timestamptz, ADD COLUMN deleted_by varchar")
    op.execute(
        "ALTER TABLE organizations ADD CONSTRAINT ck_organizations_deleted_by_somebody "
        "CHECK ((deleted_at IS NULL) = (deleted_by IS NULL))"
    )
    op.execute(
        "CREATE INDEX ix_organizations_deleted_by ON organizations (deleted_by, deleted_at) WHERE deleted_at IS NOT NULL"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE organizations DROP COLUMN deleted_at, DROP COLUMN deleted_by")

"""Webhooks that tell a chat"""

from collections.abc import Sequence

from alembic import op

revision: str = "0100"
down_revision: str | None = "0099"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE webhooks ADD COLUMN format varchar NOT NULL DEFAULT 'event'")
    op.execute("ALTER TABLE webhooks ADD CONSTRAINT ck_webhooks_format CHECK (format IN ('event', 'chat'))")


def downgrade() -> None:
    op.execute("ALTER TABLE webhooks DROP COLUMN format")

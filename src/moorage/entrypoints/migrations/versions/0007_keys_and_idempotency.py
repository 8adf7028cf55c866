"""API keys that can be disabled and rotated; what was answered to a request with an Idempotency-Key"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("disabled_at", TIME, nullable=True))
    op.add_column("api_keys", sa.Column("replaces", sa.String(), nullable=True))
    op.create_table(
        "idempotent_requests",
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("attempt", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(), nullable=False),
        sa.Column("begun_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("committed", sa.Boolean(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("actor", "key", name=op.f("pk_idempotent_requests")),
    )
    op.create_index("ix_idempotent_requests_begun_at", "idempotent_requests", ["begun_at"])


def downgrade() -> None:
    op.drop_table("idempotent_requests")
    # The version before would take a disabled key for a live one.
    op.execute(
        "UPDATE api_keys SET revoked_at = disabled_at WHERE revoked_at IS NULL AND disabled_at IS NOT NULL"
    )
    op.drop_column("api_keys", "replaces")
    op.drop_column("api_keys", "disabled_at")

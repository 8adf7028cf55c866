"""Whose remembered answers and begun sign-ins these are, so that nobody keeps too many"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0045"
down_revision: str | None = "0043"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("idempotent_requests", sa.Column("owner", sa.String(), nullable=True))
    op.execute("UPDATE idempotent_requests SET owner = actor")
    op.alter_column("idempotent_requests", "owner", nullable=False)
    op.create_index("ix_idempotent_requests_owner", "idempotent_requests", ["owner"])
    op.add_column("provider_attempts", sa.Column("source", sa.String(), server_default="", nullable=False))
    op.alter_column("provider_attempts", "source", server_default=None)
    op.create_index("ix_provider_attempts_source_expires_at", "provider_attempts", ["source", "expires_at"])
    op.create_index("ix_provider_attempts_expires_at", "provider_attempts", ["expires_at"])


def downgrade() -> None:
    op.drop_index("ix_provider_attempts_expires_at", "provider_attempts")
    op.drop_index("ix_provider_attempts_source_expires_at", "provider_attempts")
    op.drop_column("provider_attempts", "source")
    op.drop_index("ix_idempotent_requests_owner", "idempotent_requests")
    op.drop_column("idempotent_requests", "owner")

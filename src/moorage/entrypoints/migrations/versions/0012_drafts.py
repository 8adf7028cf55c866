"""Drafts of settings, and their trial"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

COLUMNS: dict[str, sa.types.TypeEngine[Any]] = {
    "draft": sa.LargeBinary(),
    "draft_saved_at": sa.DateTime(timezone=True),
    "draft_saved_by": sa.String(),
    "trial_settings": postgresql.JSONB(),
    "trial_secrets": sa.LargeBinary(),
    "trial_image": postgresql.JSONB(),
    "trial_failure": postgresql.JSONB(),
    "fallback": postgresql.JSONB(),
    "fallback_secrets": sa.LargeBinary(),
}


def upgrade() -> None:
    for name, kind in COLUMNS.items():
        op.add_column("containers", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for name in reversed(COLUMNS):
        op.drop_column("containers", name)

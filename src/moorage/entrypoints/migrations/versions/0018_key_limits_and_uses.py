"""A limit of a key's own, and when it was used last"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("requests_per_minute", sa.Integer(), nullable=True))
    op.create_check_constraint(op.f("ck_api_keys_requests_per_minute"), "api_keys", "requests_per_minute > 0")
    op.create_table(
        "api_key_uses",
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_used_from", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.id"], name=op.f("fk_api_key_uses_key_id_api_keys"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_api_key_uses")),
    )


def downgrade() -> None:
    op.drop_table("api_key_uses")
    op.drop_constraint(op.f("ck_api_keys_requests_per_minute"), "api_keys")
    op.drop_column("api_keys", "requests_per_minute")

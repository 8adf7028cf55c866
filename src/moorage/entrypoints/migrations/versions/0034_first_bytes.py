"""How long the first byte of an answer took, counted for every request"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision: str = "0034"
down_revision: str | None = "0033"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    # With a constant default, Postgres rewrites no row.
    for name, kind in (("first_byte_buckets", sa.SmallInteger()), ("first_byte_counts", sa.BigInteger())):
        op.add_column("request_histograms", sa.Column(name, ARRAY(kind), nullable=False, server_default="{}"))


def downgrade() -> None:
    op.drop_column("request_histograms", "first_byte_counts")
    op.drop_column("request_histograms", "first_byte_buckets")

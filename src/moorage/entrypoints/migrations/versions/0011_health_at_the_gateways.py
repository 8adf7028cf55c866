"""How replicas answer their health checks, as the gateways see it"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("replica_routes", sa.Column("failure", sa.String(), nullable=True))
    op.add_column("replica_routes", sa.Column("failure_status", sa.Integer(), nullable=True))
    op.add_column(
        "replica_routes", sa.Column("answered", sa.BigInteger(), server_default="0", nullable=False)
    )
    op.add_column("replica_routes", sa.Column("failing_since", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    for column in ("failing_since", "answered", "failure_status", "failure"):
        op.drop_column("replica_routes", column)

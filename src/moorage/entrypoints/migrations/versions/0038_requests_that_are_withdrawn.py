"""Requests for more replicas that are withdrawn"""

from collections.abc import Sequence

from alembic import op

revision: str = "0038"
down_revision: str | None = "0029"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_NAME = "ck_replica_limit_requests_state"
_TABLE = "replica_limit_requests"


def upgrade() -> None:
    op.execute(f"ALTER TABLE {_TABLE} DROP CONSTRAINT {_NAME}")
    op.execute(
        f"ALTER TABLE {_TABLE} ADD CONSTRAINT {_NAME} "
        "CHECK (state IN ('pending', 'approved', 'refused', 'withdrawn'))"
    )


def downgrade() -> None:
    # The word for it that was there before: nobody waits for the operator any more.
    op.execute("UPDATE replica_limit_requests SET state = 'refused' WHERE state = 'withdrawn'")
    op.execute(f"ALTER TABLE {_TABLE} DROP CONSTRAINT {_NAME}")
    op.execute(
        f"ALTER TABLE {_TABLE} ADD CONSTRAINT {_NAME} CHECK (state IN ('pending', 'approved', 'refused'))"
    )

"""What Moorage says in a log is told from what a container printed by its stream"""

from collections.abc import Sequence

from alembic import op

revision: str = "0037"
down_revision: str | None = "0035"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_PRINTED = "stream IN (1, 2)"
_OR_MOORAGE = "stream IN (1, 2, 3)"


def upgrade() -> None:
    _exchange(_OR_MOORAGE)


def downgrade() -> None:
    # Its words become lines of stderr, with the brackets that they had before.
    op.execute("UPDATE log_lines SET stream = 2, text = '[moorage: ' || text || ']' WHERE stream = 3")
    _exchange(_PRINTED)


def _exchange(condition: str) -> None:
    """Of all days' partitions. Rows are not read again: they were checked when they were written, and looking at all
    lines would take long."""
    op.execute("ALTER TABLE log_lines DROP CONSTRAINT ck_log_lines_stream")
    op.execute(f"ALTER TABLE log_lines ADD CONSTRAINT ck_log_lines_stream CHECK ({condition}) NOT VALID")

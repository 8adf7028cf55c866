"""A slot has one live hour, and the replicas that never became ready are found at once"""

from collections.abc import Sequence

from alembic import op

revision: str = "0030"
down_revision: str | None = "0029"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_LIVE = "state = 'held' OR due_at IS NOT NULL"

# Where a slot has several, the paid one that lasts longest stays.
_SURPLUS = f"""
SELECT id FROM (
    SELECT id, row_number() OVER (
        PARTITION BY container_id, slot, instance_type
        ORDER BY state = 'paid' DESC, expires_at DESC NULLS LAST, id
    ) AS place
    FROM hours WHERE {_LIVE}
) ranked WHERE place > 1
"""  # noqa: S608 - all constants
_CLOSE = f"UPDATE hours SET due_at = NULL WHERE state = 'paid' AND id IN ({_SURPLUS})"  # noqa: S608 - all constants
_GIVE_BACK = f"""
WITH released AS (
    UPDATE hours SET state = 'released' WHERE state = 'held' AND id IN ({_SURPLUS})
    RETURNING organization_id, price_microusd
)
UPDATE credit_accounts
SET available_microusd = available_microusd + back.total, held_microusd = held_microusd - back.total
FROM (SELECT organization_id, sum(price_microusd)::bigint AS total FROM released GROUP BY 1) AS back
WHERE credit_accounts.organization_id = back.organization_id
"""  # noqa: S608 - all constants


def upgrade() -> None:
    op.execute(_CLOSE)
    op.execute(_GIVE_BACK)
    op.execute(
        f"CREATE UNIQUE INDEX uq_hours_live_slot ON hours (container_id, slot, instance_type) WHERE {_LIVE}"
    )
    op.execute("CREATE INDEX ix_replicas_never_ready ON replicas (created_at) WHERE ready_at IS NULL")


def downgrade() -> None:
    op.execute("DROP INDEX ix_replicas_never_ready")
    op.execute("DROP INDEX uq_hours_live_slot")

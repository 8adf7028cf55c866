"""How a machine hands over its GPUs and what is wrong with it; what an image asks of the driver"""

from collections.abc import Sequence

from alembic import op

revision: str = "0050"
down_revision: str | None = "0045"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE nodes ADD COLUMN gpu_handover varchar NOT NULL DEFAULT 'none'")
    op.execute("ALTER TABLE nodes ADD COLUMN gpu_handover_reason varchar")
    op.execute("ALTER TABLE nodes ADD COLUMN findings jsonb NOT NULL DEFAULT '[]'")
    op.execute("ALTER TABLE containers ADD COLUMN image_gpu_environment jsonb")


def downgrade() -> None:
    _forget_what_the_version_before_cannot_read()
    op.execute("ALTER TABLE containers DROP COLUMN image_gpu_environment")
    op.execute("ALTER TABLE nodes DROP COLUMN findings")
    op.execute("ALTER TABLE nodes DROP COLUMN gpu_handover_reason")
    op.execute("ALTER TABLE nodes DROP COLUMN gpu_handover")


def _forget_what_the_version_before_cannot_read() -> None:
    """Its settings, GPUs and reasons end at a word that they do not know, and with them every pass over a container."""
    op.execute(
        "UPDATE containers SET settings = settings - 'api_path', trial_settings = trial_settings - 'api_path', "
        "fallback = fallback #- '{settings,api_path}' "
        "WHERE settings ? 'api_path' OR trial_settings ? 'api_path' OR fallback -> 'settings' ? 'api_path'"
    )
    op.execute(
        "UPDATE nodes SET gpus = (SELECT coalesce(jsonb_agg(gpu - 'unusable_because'), '[]') "
        "FROM jsonb_array_elements(gpus) gpu)"
    )
    op.execute(
        "CREATE TEMPORARY TABLE before (word, meaning) ON COMMIT DROP AS "
        "VALUES ('gpu_lost', 'node_lost'), ('gpu_busy', 'engine_error'), ('gpu_out_of_memory', 'exited')"
    )
    op.execute("UPDATE replicas SET reason = before.meaning FROM before WHERE reason = before.word")
    op.execute("UPDATE containers SET reason = before.meaning FROM before WHERE reason = before.word")
    op.execute(
        "UPDATE containers SET failure_reason = before.meaning FROM before WHERE failure_reason = before.word"
    )
    op.execute(
        "UPDATE containers SET trial_failure = trial_failure || jsonb_build_object('reason', before.meaning) "
        "FROM before WHERE trial_failure ->> 'reason' = before.word"
    )

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
    op.execute("ALTER TABLE containers DROP COLUMN image_gpu_environment")
    op.execute("ALTER TABLE nodes DROP COLUMN findings")
    op.execute("ALTER TABLE nodes DROP COLUMN gpu_handover_reason")
    op.execute("ALTER TABLE nodes DROP COLUMN gpu_handover")

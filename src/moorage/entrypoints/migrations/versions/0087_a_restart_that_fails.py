"""A restart that fails leaves what served before it as the deployment again: with the image that it runs"""

from collections.abc import Sequence

from alembic import op

revision: str = "0087"
down_revision: str | None = "0086"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE containers ADD COLUMN serving_image jsonb, "
        "ADD COLUMN resumed_generation integer NOT NULL DEFAULT 0"
    )
    op.execute(
        "UPDATE containers SET serving_image = jsonb_build_object('ref', image_ref, 'digest', image_digest, "
        "'port', port, 'gpu_environment', image_gpu_environment) "
        "WHERE image_ref IS NOT NULL AND image_generation = serving_generation"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE containers DROP COLUMN serving_image, DROP COLUMN resumed_generation")

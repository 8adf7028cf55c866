"""Replicas and hours of a container that takes machines of either kind"""

from collections.abc import Sequence

from alembic import op

revision: str = "0095"
down_revision: str | None = "0092"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE replicas ADD COLUMN sibling_type varchar "
        "CONSTRAINT fk_replicas_sibling_type_instance_types REFERENCES instance_types (name)"
    )
    op.execute("ALTER TABLE hours ADD COLUMN sibling_type varchar")


def downgrade() -> None:
    op.execute("ALTER TABLE hours DROP COLUMN sibling_type")
    op.execute("ALTER TABLE replicas DROP COLUMN sibling_type")

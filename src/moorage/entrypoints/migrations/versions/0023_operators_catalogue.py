"""The operator's catalogue: types that are not offered, drivers of machines, records of the installation"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0023"
down_revision: str | None = "0022"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "instance_types", sa.Column("enabled", sa.Boolean(), server_default=sa.true(), nullable=False)
    )
    op.add_column("nodes", sa.Column("gpu_driver", sa.String(), nullable=True))
    op.add_column("nodes", sa.Column("cuda_version", sa.String(), nullable=True))
    op.alter_column("audit_records", "organization_id", nullable=True)


def downgrade() -> None:
    # There is no place for the installation's own records any more.
    op.execute("DELETE FROM audit_records WHERE organization_id IS NULL")
    op.alter_column("audit_records", "organization_id", nullable=False)
    op.drop_column("nodes", "cuda_version")
    op.drop_column("nodes", "gpu_driver")
    op.drop_column("instance_types", "enabled")

"""What containers did: seconds, steps, and when gateways reported"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "container_samples",
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("gateway_id", sa.String(), nullable=False),
        sa.Column("in_flight", sa.Integer(), nullable=False),
        sa.Column("queued", sa.Integer(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("errors", sa.Integer(), nullable=False),
        sa.Column("response_ms", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("at", "container_id", "gateway_id", name=op.f("pk_container_samples")),
    )
    op.create_index("ix_container_samples_container_id_at", "container_samples", ["container_id", "at"])
    op.create_table(
        "container_steps",
        sa.Column("step_s", sa.SmallInteger(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("in_flight_mean", sa.Float(), nullable=False),
        sa.Column("in_flight_max", sa.Integer(), nullable=False),
        sa.Column("queued_mean", sa.Float(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("response_ms", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("step_s", "at", "container_id", name=op.f("pk_container_steps")),
    )
    op.create_index("ix_container_steps_container_id_at", "container_steps", ["container_id", "step_s", "at"])
    op.create_table(
        "gateway_reports",
        sa.Column("gateway_id", sa.String(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("gateway_id", "since", name=op.f("pk_gateway_reports")),
    )


def downgrade() -> None:
    op.drop_table("gateway_reports")
    op.drop_index("ix_container_steps_container_id_at", table_name="container_steps")
    op.drop_table("container_steps")
    op.drop_index("ix_container_samples_container_id_at", table_name="container_samples")
    op.drop_table("container_samples")

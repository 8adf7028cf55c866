"""Runtime logs"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# Lines can be stored as soon as the tables are there; from then on the controller makes each day ahead.
FIRST_PARTITIONS = """
DO $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
    FOR days IN 0..1 LOOP
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF log_lines FOR VALUES FROM (%L) TO (%L)',
            'log_lines_' || to_char(today + days, 'YYYYMMDD'),
            (today + days)::text || ' 00:00:00+00',
            (today + days + 1)::text || ' 00:00:00+00'
        );
    END LOOP;
END $$
"""


def upgrade() -> None:
    op.create_table(
        "log_lines",
        sa.Column("replica_id", sa.String(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("stream", sa.SmallInteger(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.CheckConstraint("stream IN (1, 2)", name=op.f("ck_log_lines_stream")),
        sa.PrimaryKeyConstraint("replica_id", "sequence", "written_at", name=op.f("pk_log_lines")),
        postgresql_partition_by="RANGE (written_at)",
    )
    op.create_index(
        "ix_log_lines_container_id_time",
        "log_lines",
        ["container_id", "time", "sequence", "replica_id"],
        unique=False,
    )
    op.execute(FIRST_PARTITIONS)
    op.create_table(
        "log_cursors",
        sa.Column("replica_id", sa.String(), nullable=False),
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("next_sequence", sa.BigInteger(), nullable=False),
        sa.Column("since_ns", sa.BigInteger(), nullable=False),
        sa.Column("stdout_time_ns", sa.BigInteger(), nullable=False),
        sa.Column("stdout_chunks", sa.Integer(), nullable=False),
        sa.Column("stderr_time_ns", sa.BigInteger(), nullable=False),
        sa.Column("stderr_chunks", sa.Integer(), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["replica_id"],
            ["replicas.id"],
            name=op.f("fk_log_cursors_replica_id_replicas"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("replica_id", name=op.f("pk_log_cursors")),
    )
    op.create_index(
        "ix_log_cursors_container_id_finished_at",
        "log_cursors",
        ["container_id", "finished_at"],
        unique=False,
    )


def downgrade() -> None:
    op.drop_index("ix_log_cursors_container_id_finished_at", table_name="log_cursors")
    op.drop_table("log_cursors")
    op.drop_index("ix_log_lines_container_id_time", table_name="log_lines")
    op.drop_table("log_lines")

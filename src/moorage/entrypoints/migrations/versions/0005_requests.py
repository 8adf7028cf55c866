"""Requests: records of some, figures of all"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# As with logs: rows can be stored as soon as the tables are there; the controller makes each later day ahead.
FIRST_PARTITIONS = """
DO $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    parent text;
BEGIN
    FOREACH parent IN ARRAY ARRAY['request_records', 'request_histograms'] LOOP
        FOR days IN 0..1 LOOP
            EXECUTE format(
                'CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                parent || '_' || to_char(today + days, 'YYYYMMDD'),
                parent,
                (today + days)::text || ' 00:00:00+00',
                (today + days + 1)::text || ' 00:00:00+00'
            );
        END LOOP;
    END LOOP;
END $$
"""


def upgrade() -> None:
    op.create_table(
        "request_records",
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("gateway_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("container_id", sa.String(), nullable=True),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("replica_id", sa.String(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("queue_ms", sa.Integer(), nullable=True),
        sa.Column("connect_ms", sa.Integer(), nullable=True),
        sa.Column("first_byte_ms", sa.Integer(), nullable=True),
        sa.Column("total_ms", sa.Integer(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=True),
        sa.Column("request_bytes", sa.BigInteger(), nullable=False),
        sa.Column("response_bytes", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("request_id", "written_at", name=op.f("pk_request_records")),
        postgresql_partition_by="RANGE (written_at)",
    )
    op.create_table(
        "request_histograms",
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("gateway_id", sa.String(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("statuses", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("buckets", postgresql.ARRAY(sa.SmallInteger()), nullable=False),
        sa.Column("counts", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.PrimaryKeyConstraint(
            "container_id", "time", "gateway_id", "written_at", name=op.f("pk_request_histograms")
        ),
        postgresql_partition_by="RANGE (written_at)",
    )
    op.execute(FIRST_PARTITIONS)


def downgrade() -> None:
    op.drop_table("request_histograms")
    op.drop_table("request_records")

"""Crash capsules, and how a replica's health checks went"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# A trigger and not a missing grant: whoever owns the table could grant it to themselves without noticing.
IMMUTABLE = """
CREATE FUNCTION refuse_capsule_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a crash capsule is never changed';
END $$
"""
TRIGGER = """
CREATE TRIGGER crash_capsules_are_immutable BEFORE UPDATE OR DELETE ON crash_capsules
FOR EACH ROW EXECUTE FUNCTION refuse_capsule_change()
"""
NO_TRUNCATE = """
CREATE TRIGGER crash_capsules_are_not_truncated BEFORE TRUNCATE ON crash_capsules
FOR EACH STATEMENT EXECUTE FUNCTION refuse_capsule_change()
"""
FIRST_PARTITIONS = """
DO $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
BEGIN
    FOR days IN 0..1 LOOP
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF crash_capsules FOR VALUES FROM (%L) TO (%L)',
            'crash_capsules_' || to_char(today + days, 'YYYYMMDD'),
            (today + days)::text || ' 00:00:00+00',
            (today + days + 1)::text || ' 00:00:00+00'
        );
    END LOOP;
END $$
"""


def upgrade() -> None:
    op.create_table(
        "crash_capsules",
        sa.Column("replica_id", sa.String(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("content", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("replica_id", "written_at", name=op.f("pk_crash_capsules")),
        postgresql_partition_by="RANGE (written_at)",
    )
    op.create_index(
        "ix_crash_capsules_container_id_written_at",
        "crash_capsules",
        ["container_id", "written_at", "replica_id"],
    )
    for statement in (IMMUTABLE, TRIGGER, NO_TRUNCATE, FIRST_PARTITIONS):
        op.execute(statement)
    op.add_column("replicas", sa.Column("probe_history", postgresql.JSONB(), nullable=True))
    op.add_column("replicas", sa.Column("capsule_at", sa.DateTime(timezone=True), nullable=True))
    # Of what ended before, nobody remembers enough.
    op.execute("UPDATE replicas SET capsule_at = now() WHERE ended_badly")
    op.create_index(
        "ix_replicas_without_capsule",
        "replicas",
        ["id"],
        postgresql_where=sa.text("ended_badly AND capsule_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_replicas_without_capsule", "replicas")
    op.drop_column("replicas", "capsule_at")
    op.drop_column("replicas", "probe_history")
    op.drop_table("crash_capsules")
    op.execute("DROP FUNCTION refuse_capsule_change()")

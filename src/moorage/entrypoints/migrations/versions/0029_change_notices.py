"""Whoever watches a project hears which of its containers changed"""

from collections.abc import Sequence

from alembic import op

revision: str = "0029"
down_revision: str | None = "0028"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# In the database and not in the code that writes: whoever changes a row, nobody has to remember to say so.
_CONTAINER = """
CREATE FUNCTION say_container_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('moorage_changes', NEW.project_id || ' ' || NEW.id);
    RETURN NULL;
END $$
"""
_REPLICA = """
CREATE FUNCTION say_replica_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('moorage_changes', project_id || ' ' || id) FROM containers WHERE id = NEW.container_id;
    RETURN NULL;
END $$
"""
_SHOWN = (
    "name", "settings", "desired_state", "desired_replicas", "generation", "state", "reason", "message", "progress",
    "failure_fix", "image_digest", "draft_saved_at", "trial_settings", "trial_failure", "deleted_at",
)  # fmt: skip
"""What people see of a container. A pass of a reconciler alone is no news."""


def upgrade() -> None:
    op.execute(_CONTAINER)
    op.execute(_REPLICA)
    before, after = (", ".join(f"{row}.{column}" for column in _SHOWN) for row in ("OLD", "NEW"))
    op.execute(
        "CREATE TRIGGER say_created AFTER INSERT ON containers "
        "FOR EACH ROW EXECUTE FUNCTION say_container_changed()"
    )
    op.execute(
        f"CREATE TRIGGER say_changed AFTER UPDATE ON containers FOR EACH ROW "
        f"WHEN (({before}) IS DISTINCT FROM ({after})) EXECUTE FUNCTION say_container_changed()"
    )
    op.execute(
        "CREATE TRIGGER say_created AFTER INSERT ON replicas FOR EACH ROW EXECUTE FUNCTION say_replica_changed()"
    )
    op.execute(
        "CREATE TRIGGER say_changed AFTER UPDATE ON replicas FOR EACH ROW "
        "WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION say_replica_changed()"
    )


def downgrade() -> None:
    for table in ("containers", "replicas"):
        op.execute(f"DROP TRIGGER say_changed ON {table}")
        op.execute(f"DROP TRIGGER say_created ON {table}")
    op.execute("DROP FUNCTION say_replica_changed()")
    op.execute("DROP FUNCTION say_container_changed()")

"""Replicas say which engine has them, and machines whether they answer and what the operator lets them do"""

from collections.abc import Sequence

from alembic import op

revision: str = "0060"
down_revision: str | None = "0051"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

LIVE = "state IN ('requested', 'starting', 'ready', 'routed')"


def upgrade() -> None:
    # All that there is was given to the one engine that there was. The default stays, for a controller of before.
    for table in ("replicas", "nodes", "machine_doubts"):
        op.execute(f"ALTER TABLE {table} ADD COLUMN engine varchar NOT NULL DEFAULT 'local'")
    op.execute("ALTER TABLE replicas ALTER COLUMN host DROP NOT NULL, ALTER COLUMN host_port DROP NOT NULL")
    op.execute("ALTER TABLE replicas ADD COLUMN moving_since timestamptz")
    op.execute("DROP INDEX uq_replicas_host_port")
    op.execute(
        "CREATE UNIQUE INDEX uq_replicas_host_port ON replicas (engine, node, host_port) "
        "WHERE port_released_at IS NULL"
    )
    op.execute("DROP INDEX uq_replicas_live_slot")
    op.execute(
        "CREATE UNIQUE INDEX uq_replicas_live_slot ON replicas (container_id, generation, slot) "
        f"WHERE {LIVE} AND moving_since IS NULL"
    )
    op.execute(
        "ALTER TABLE nodes DROP CONSTRAINT pk_nodes, ADD CONSTRAINT pk_nodes PRIMARY KEY (engine, name)"
    )
    op.execute(
        "ALTER TABLE nodes ADD COLUMN schedulable boolean NOT NULL DEFAULT true, "
        "ADD COLUMN ready boolean NOT NULL DEFAULT true, ADD COLUMN unready_since timestamptz, "
        "ADD COLUMN cordoned_at timestamptz, ADD COLUMN draining_at timestamptz"
    )
    op.execute(
        "ALTER TABLE machine_doubts DROP CONSTRAINT pk_machine_doubts, "
        "ADD CONSTRAINT pk_machine_doubts PRIMARY KEY (engine, node)"
    )


def downgrade() -> None:
    # Only the engine of before is left, with what it has.
    op.execute("DELETE FROM machine_doubts WHERE engine <> 'local'")
    op.execute("DELETE FROM nodes WHERE engine <> 'local'")
    # What runs elsewhere is out of reach.
    op.execute(
        "UPDATE replicas SET state = 'removed', ended_at = coalesce(ended_at, now()) "
        "WHERE engine <> 'local' AND state <> 'removed'"
    )
    op.execute(
        "UPDATE replicas SET port_released_at = now() WHERE engine <> 'local' AND port_released_at IS NULL"
    )
    # Of two in one slot, the one that was to go goes.
    op.execute(
        "UPDATE replicas SET state = 'draining', draining_at = now() "
        "WHERE state IN ('requested', 'starting', 'ready', 'routed') AND moving_since IS NOT NULL"
    )
    op.execute("UPDATE replicas SET host = '127.0.0.1' WHERE host IS NULL")
    op.execute("UPDATE replicas SET host_port = 0, port_released_at = now() WHERE host_port IS NULL")
    op.execute(
        "ALTER TABLE machine_doubts DROP CONSTRAINT pk_machine_doubts, "
        "ADD CONSTRAINT pk_machine_doubts PRIMARY KEY (node)"
    )
    op.execute(
        "ALTER TABLE nodes DROP COLUMN schedulable, DROP COLUMN ready, DROP COLUMN unready_since, "
        "DROP COLUMN cordoned_at, DROP COLUMN draining_at"
    )
    op.execute("ALTER TABLE nodes DROP CONSTRAINT pk_nodes, ADD CONSTRAINT pk_nodes PRIMARY KEY (name)")
    op.execute("DROP INDEX uq_replicas_live_slot")
    op.execute(
        f"CREATE UNIQUE INDEX uq_replicas_live_slot ON replicas (container_id, generation, slot) WHERE {LIVE}"
    )
    op.execute("DROP INDEX uq_replicas_host_port")
    op.execute(
        "CREATE UNIQUE INDEX uq_replicas_host_port ON replicas (host_port) WHERE port_released_at IS NULL"
    )
    op.execute("ALTER TABLE replicas DROP COLUMN moving_since")
    op.execute("ALTER TABLE replicas ALTER COLUMN host SET NOT NULL, ALTER COLUMN host_port SET NOT NULL")
    for table in ("replicas", "nodes", "machine_doubts"):
        op.execute(f"ALTER TABLE {table} DROP COLUMN engine")

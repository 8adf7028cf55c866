"""Machines that organizations lend: how they stand, whose word stops them, and when their owners want them back"""

from collections.abc import Sequence

from alembic import op

revision: str = "0096"
down_revision: str | None = "0095"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_STATES = "'joining', 'active', 'paused', 'draining', 'lost', 'removed'"
_MORE_STATES = f"{_STATES}, 'verifying', 'probation', 'banned'"
_COMPLETE = (
    "name IS NOT NULL AND address IS NOT NULL AND port IS NOT NULL "
    "AND public_key IS NOT NULL AND sealed_credential IS NOT NULL AND secret_hash IS NOT NULL"
)


def upgrade() -> None:
    op.execute(
        "ALTER TABLE machines ADD COLUMN standing varchar NOT NULL DEFAULT 'active', "
        "ADD COLUMN stopped_by varchar, ADD COLUMN paused_until timestamptz, ADD COLUMN empty_by timestamptz, "
        "ADD COLUMN held_because varchar, "
        "ADD CONSTRAINT ck_machines_standing CHECK (standing IN ('verifying', 'probation', 'active')), "
        "ADD CONSTRAINT ck_machines_lent_has_owner "
        "CHECK (infrastructure = 'operator' OR owner_organization_id IS NOT NULL)"
    )
    _constrain(_MORE_STATES, "'joining', 'banned', 'removed'")
    op.execute("UPDATE machines SET stopped_by = 'operator' WHERE state IN ('paused', 'draining')")
    op.execute(
        "CREATE TABLE machine_state_changes ("
        "machine_id varchar NOT NULL CONSTRAINT fk_machine_state_changes_machine_id_machines "
        "REFERENCES machines (id) ON DELETE CASCADE, at timestamptz NOT NULL, state varchar NOT NULL, before_loss varchar, "
        "CONSTRAINT pk_machine_state_changes PRIMARY KEY (machine_id, at))"
    )
    op.execute("CREATE INDEX ix_machine_state_changes_at ON machine_state_changes (at)")
    op.execute(
        "ALTER TABLE nodes ADD COLUMN owner varchar, ADD COLUMN on_probation boolean NOT NULL DEFAULT false, "
        "ADD COLUMN empty_by timestamptz"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE nodes DROP COLUMN owner, DROP COLUMN on_probation, DROP COLUMN empty_by")
    op.execute("DROP TABLE machine_state_changes")
    # Nobody lent one before.
    op.execute(
        "DELETE FROM machine_join_tokens WHERE machine_id IN (SELECT id FROM machines WHERE infrastructure <> 'operator')"
    )
    op.execute("DELETE FROM machines WHERE infrastructure <> 'operator'")
    op.execute("UPDATE machines SET state = 'paused' WHERE state = 'banned' AND address IS NOT NULL")
    op.execute("UPDATE machines SET state = 'joining' WHERE state = 'banned'")
    _constrain(_STATES, "'joining', 'removed'")
    op.execute(
        "ALTER TABLE machines DROP CONSTRAINT ck_machines_lent_has_owner, DROP CONSTRAINT ck_machines_standing, "
        "DROP COLUMN standing, DROP COLUMN stopped_by, DROP COLUMN paused_until, DROP COLUMN empty_by, "
        "DROP COLUMN held_because"
    )


def _constrain(states: str, incomplete: str) -> None:
    op.execute(
        "ALTER TABLE machines DROP CONSTRAINT ck_machines_state, DROP CONSTRAINT ck_machines_joined_is_complete, "
        f"ADD CONSTRAINT ck_machines_state CHECK (state IN ({states})), "
        f"ADD CONSTRAINT ck_machines_joined_is_complete CHECK (state IN ({incomplete}) OR ({_COMPLETE}))"
    )

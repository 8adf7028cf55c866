"""Containers that sleep, how long they did, and the requests that were held for them"""

from collections.abc import Sequence

from alembic import op

revision: str = "0082"
down_revision: str | None = "0081"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute("ALTER TABLE containers ADD COLUMN asleep_since timestamptz, ADD COLUMN woken_at timestamptz")
    op.execute("CREATE INDEX ix_containers_asleep_since ON containers (id) WHERE asleep_since IS NOT NULL")
    op.execute(
        """
        CREATE TABLE container_sleeps (
            container_id varchar NOT NULL,
            asleep_at timestamptz NOT NULL,
            paid_until timestamptz,
            replicas integer NOT NULL,
            price_per_hour_microusd bigint NOT NULL,
            woken_at timestamptz,
            woken_by varchar,
            served_at timestamptz,
            replica_id varchar,
            CONSTRAINT pk_container_sleeps PRIMARY KEY (container_id, asleep_at),
            CONSTRAINT fk_container_sleeps_container_id_containers FOREIGN KEY (container_id)
                REFERENCES containers (id) ON DELETE CASCADE
        )
        """
    )
    op.execute(
        """
        CREATE TABLE held_requests (
            request_id varchar NOT NULL,
            container_id varchar NOT NULL,
            gateway_id varchar NOT NULL,
            arrived_at timestamptz NOT NULL,
            held_ms integer NOT NULL,
            place integer NOT NULL,
            places integer NOT NULL,
            replica_id varchar,
            code varchar,
            comments integer NOT NULL DEFAULT 0,
            CONSTRAINT pk_held_requests PRIMARY KEY (request_id)
        )
        """
    )
    op.execute("CREATE INDEX ix_held_requests_arrived_at ON held_requests (arrived_at)")
    op.execute(
        "CREATE TRIGGER say_asleep AFTER UPDATE ON containers FOR EACH ROW "
        "WHEN ((OLD.asleep_since, OLD.woken_at) IS DISTINCT FROM (NEW.asleep_since, NEW.woken_at)) "
        "EXECUTE FUNCTION say_container_changed()"
    )


def downgrade() -> None:
    _forget_what_the_version_before_cannot_read()
    # To the version before what sleeps is a container that lacks its replicas: it has to look at it once.
    op.execute(
        "UPDATE containers SET changes = changes + 1, reconcile_at = now() "
        "WHERE asleep_since IS NOT NULL OR woken_at IS NOT NULL"
    )
    op.execute("DROP TRIGGER say_asleep ON containers")
    op.execute("DROP TABLE held_requests")
    op.execute("DROP TABLE container_sleeps")
    op.execute("ALTER TABLE containers DROP COLUMN asleep_since, DROP COLUMN woken_at")


def _forget_what_the_version_before_cannot_read() -> None:
    """Its settings end at a word that they do not know, and with them every pass over a container and every page of it. A draft
    that says when to sleep is sealed, so it stays, and that version refuses to read it: discard it, and save it anew."""
    op.execute(
        "UPDATE containers SET settings = settings - 'sleep_after_s', "
        "trial_settings = trial_settings - 'sleep_after_s', fallback = fallback #- '{settings,sleep_after_s}' "
        "WHERE settings ? 'sleep_after_s' OR trial_settings ? 'sleep_after_s' "
        "OR fallback -> 'settings' ? 'sleep_after_s'"
    )
    op.execute(
        "UPDATE container_versions SET settings = settings - 'sleep_after_s' WHERE settings ? 'sleep_after_s'"
    )

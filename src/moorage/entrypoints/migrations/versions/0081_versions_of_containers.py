"""Versions of a container's settings, what became of each, and how one takes over from another"""

from collections.abc import Sequence

from alembic import op

revision: str = "0081"
down_revision: str | None = "0080"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE containers ADD COLUMN version integer NOT NULL DEFAULT 1, ADD COLUMN rollout jsonb"
    )
    op.execute("ALTER TABLE replicas ADD COLUMN version integer NOT NULL DEFAULT 1")
    op.execute(
        """
        CREATE TABLE container_versions (
            container_id varchar NOT NULL,
            version integer NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            created_by varchar NOT NULL,
            settings jsonb NOT NULL,
            secrets bytea NOT NULL,
            image jsonb,
            changes jsonb NOT NULL,
            strategy varchar,
            outcome varchar,
            reason varchar,
            served_s double precision NOT NULL DEFAULT 0,
            served_since timestamptz,
            CONSTRAINT pk_container_versions PRIMARY KEY (container_id, version),
            CONSTRAINT fk_container_versions_container_id_containers FOREIGN KEY (container_id)
                REFERENCES containers (id) ON DELETE CASCADE,
            CONSTRAINT ck_container_versions_outcome
                CHECK (outcome IN ('serving', 'replaced', 'failed', 'rolled_back')),
            CONSTRAINT ck_container_versions_strategy CHECK (strategy IN ('replace', 'rolling'))
        )
        """
    )
    op.execute(
        """
        CREATE TABLE version_figures (
            container_id varchar NOT NULL,
            version integer NOT NULL,
            gateway_id varchar NOT NULL,
            answers bigint NOT NULL DEFAULT 0,
            errors bigint NOT NULL DEFAULT 0,
            CONSTRAINT pk_version_figures PRIMARY KEY (container_id, version, gateway_id)
        )
        """
    )
    op.execute("CREATE INDEX ix_containers_rollout ON containers (id) WHERE rollout IS NOT NULL")
    # What there is becomes the first version; who made it is in the activities.
    op.execute(
        """
        INSERT INTO container_versions
            (container_id, version, created_at, created_by, settings, secrets, image, changes, outcome, served_since)
        SELECT id, 1, created_at, 'system', settings, secrets,
            CASE WHEN image_ref IS NULL THEN NULL ELSE jsonb_build_object(
                'ref', image_ref, 'digest', image_digest, 'port', port, 'gpu_environment', image_gpu_environment)
            END,
            '[]', CASE WHEN state = 'RUNNING' THEN 'serving' END, CASE WHEN state = 'RUNNING' THEN state_since END
        FROM containers WHERE deleted_at IS NULL
        """
    )


def downgrade() -> None:
    _say_reasons_as_the_version_before_did()
    op.execute("DROP TABLE version_figures")
    op.execute("DROP TABLE container_versions")
    op.execute("ALTER TABLE replicas DROP COLUMN version")
    op.execute("ALTER TABLE containers DROP COLUMN version, DROP COLUMN rollout")


def _say_reasons_as_the_version_before_did() -> None:
    """A word that it does not know ends every pass over the container. The sentences beside them stay."""
    op.execute(
        "CREATE TEMPORARY TABLE before (word, meaning) ON COMMIT DROP AS "
        "VALUES ('errors_above_bound', 'health_check_status'), ('rolled_back', 'stopped_by_user')"
    )
    op.execute("UPDATE replicas SET reason = before.meaning FROM before WHERE reason = before.word")
    op.execute("UPDATE containers SET reason = before.meaning FROM before WHERE reason = before.word")
    op.execute(
        "UPDATE containers SET failure_reason = before.meaning FROM before WHERE failure_reason = before.word"
    )
    op.execute(
        "UPDATE containers SET trial_failure = trial_failure || jsonb_build_object('reason', before.meaning) "
        "FROM before WHERE trial_failure ->> 'reason' = before.word"
    )
    # Several migrations may go down in one transaction, and another has a table of this name.
    op.execute("DROP TABLE before")

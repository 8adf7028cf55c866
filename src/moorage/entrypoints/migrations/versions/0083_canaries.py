"""A canary is a strategy of its own, and two versions beside each other are compared by their response times too"""

from collections.abc import Sequence

from alembic import op

revision: str = "0083"
down_revision: str | None = "0082"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE container_versions DROP CONSTRAINT ck_container_versions_strategy, "
        "ADD CONSTRAINT ck_container_versions_strategy CHECK (strategy IN ('replace', 'rolling', 'canary'))"
    )
    op.execute(
        """
        CREATE TABLE version_response_times (
            container_id varchar NOT NULL,
            version integer NOT NULL,
            gateway_id varchar NOT NULL,
            bucket smallint NOT NULL,
            answers bigint NOT NULL DEFAULT 0,
            CONSTRAINT pk_version_response_times PRIMARY KEY (container_id, version, gateway_id, bucket)
        )
        """
    )


def downgrade() -> None:
    op.execute("DROP TABLE version_response_times")
    # A version before this does not know the word: to it, a canary under way would be an update whose old replicas are to stop. What
    # serves becomes the deployment after the canary's, as when one is dropped; what was on trial goes as anything older does.
    canary = "rollout ->> 'strategy' = 'canary'"
    op.execute(
        f"UPDATE replicas r SET generation = c.generation + 2 FROM containers c "  # noqa: S608 - all constants
        f"WHERE r.container_id = c.id AND r.generation = c.generation AND c.{canary}"
    )
    follows = ", ".join(
        f"{column} = CASE WHEN {column} = generation THEN generation + 2 ELSE {column} END"
        for column in ("image_generation", "serving_generation", "failed_generation")
    )
    op.execute(
        f"UPDATE containers SET {follows}, generation = generation + 2, trial_settings = NULL, "  # noqa: S608
        f"trial_secrets = NULL, trial_image = NULL, rollout = NULL, changes = changes + 1, reconcile_at = now() "
        f"WHERE {canary}"
    )
    _say_slowness_as_the_version_before_did()
    op.execute("UPDATE container_versions SET strategy = 'rolling' WHERE strategy = 'canary'")
    op.execute(
        "ALTER TABLE container_versions DROP CONSTRAINT ck_container_versions_strategy, "
        "ADD CONSTRAINT ck_container_versions_strategy CHECK (strategy IN ('replace', 'rolling'))"
    )


def _say_slowness_as_the_version_before_did() -> None:
    """A word that it does not know ends every pass over the container. The sentence beside it stays."""
    for table, column in (("containers", "reason"), ("containers", "failure_reason"), ("replicas", "reason")):
        op.execute(
            f"UPDATE {table} SET {column} = 'errors_above_bound' "  # noqa: S608 - all constants
            f"WHERE {column} = 'slower_than_before'"
        )
    op.execute(
        "UPDATE containers SET trial_failure = jsonb_set(trial_failure, '{reason}', '\"errors_above_bound\"') "
        "WHERE trial_failure ->> 'reason' = 'slower_than_before'"
    )

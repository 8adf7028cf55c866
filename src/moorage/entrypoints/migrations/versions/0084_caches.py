"""Containers keep caches on their machines"""

from collections.abc import Sequence

from alembic import op

revision: str = "0084"
down_revision: str | None = "0083"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.execute(
        """
        CREATE TABLE container_caches (
            id varchar NOT NULL,
            container_id varchar NOT NULL,
            engine varchar NOT NULL,
            node varchar NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            used_at timestamptz NOT NULL DEFAULT now(),
            measured_at timestamptz,
            size_bytes bigint NOT NULL DEFAULT 0,
            compiled_bytes bigint NOT NULL DEFAULT 0,
            warm_version integer NOT NULL DEFAULT 0,
            deleting_at timestamptz,
            CONSTRAINT pk_container_caches PRIMARY KEY (id),
            CONSTRAINT fk_container_caches_container_id_containers FOREIGN KEY (container_id) REFERENCES containers (id),
            CONSTRAINT ck_container_caches_sizes CHECK (size_bytes >= 0 AND compiled_bytes >= 0)
        )
        """
    )
    op.execute(
        "CREATE UNIQUE INDEX uq_container_caches_container_id_engine ON container_caches (container_id, engine)"
    )
    op.execute("CREATE INDEX ix_container_caches_engine ON container_caches (engine)")


def downgrade() -> None:
    """What lies on the machines stays there: the version before does not know it. `docker volume prune` takes it away."""
    op.execute("DROP TABLE container_caches")
    # Its settings end at a word that they do not know, and with them every pass over a container and every page of it.
    op.execute(
        "UPDATE containers SET settings = settings - 'cache_gib', trial_settings = trial_settings - 'cache_gib', "
        "fallback = fallback #- '{settings,cache_gib}' "
        "WHERE settings ? 'cache_gib' OR trial_settings ? 'cache_gib' OR fallback -> 'settings' ? 'cache_gib'"
    )
    op.execute("UPDATE container_versions SET settings = settings - 'cache_gib' WHERE settings ? 'cache_gib'")

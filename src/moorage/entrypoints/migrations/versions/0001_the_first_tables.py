"""The first tables"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "activities",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("container_id", sa.String(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("message", sa.String(), nullable=True),
        sa.Column("details", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_activities")),
    )
    op.create_index("ix_activities_container_id_at", "activities", ["container_id", "at", "id"], unique=False)
    op.create_index("ix_activities_project_id_at", "activities", ["project_id", "at", "id"], unique=False)
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("key_hash", sa.LargeBinary(), nullable=False),
        sa.Column("hint", sa.String(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("scope IN ('inference', 'manage')", name=op.f("ck_api_keys_scope")),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 63", name=op.f("ck_api_keys_name_length")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("key_hash", name=op.f("uq_api_keys_key_hash")),
    )
    op.create_index(
        "ix_api_keys_project_id_created_at", "api_keys", ["project_id", "created_at"], unique=False
    )
    op.create_table(
        "gateways",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gateways")),
    )
    op.create_table(
        "installation",
        sa.Column("only_row", sa.Boolean(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("only_row", name=op.f("ck_installation_only_row")),
        sa.PrimaryKeyConstraint("only_row", name=op.f("pk_installation")),
    )
    op.create_table(
        "instance_types",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("gpu_model", sa.String(), nullable=True),
        sa.Column("gpu_count", sa.Integer(), nullable=False),
        sa.Column("vcpu_millis", sa.Integer(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("disk_bytes", sa.BigInteger(), nullable=False),
        sa.Column("price_per_hour_microusd", sa.BigInteger(), nullable=False),
        sa.Column("infrastructure", sa.String(), nullable=False),
        sa.CheckConstraint(
            "infrastructure IN ('operator', 'community')", name=op.f("ck_instance_types_infrastructure")
        ),
        sa.CheckConstraint(
            "(gpu_model IS NULL) = (gpu_count = 0) AND gpu_count >= 0", name=op.f("ck_instance_types_gpus")
        ),
        sa.CheckConstraint("price_per_hour_microusd > 0", name=op.f("ck_instance_types_costs_something")),
        sa.CheckConstraint(
            "vcpu_millis >= 250 AND memory_bytes > 0 AND disk_bytes > 0", name=op.f("ck_instance_types_sizes")
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_instance_types")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "mails",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mails")),
    )
    op.create_index("ix_mails_created_at_id", "mails", ["created_at", "id"], unique=False)
    op.create_table(
        "nodes",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("infrastructure", sa.String(), nullable=False),
        sa.Column("architecture", sa.String(), nullable=False),
        sa.Column("cpu_millis", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("gpus", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_nodes")),
    )
    op.create_table(
        "operator_keys",
        sa.Column("key_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("key_hash", name=op.f("pk_operator_keys")),
    )
    op.create_table(
        "organizations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("suspended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 63", name=op.f("ck_organizations_name_length")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_organizations")),
    )
    op.create_table(
        "reconciler_status",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("holder", sa.String(), nullable=False),
        sa.Column("last_run_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_success_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.String(), nullable=True),
        sa.Column("consecutive_failures", sa.Integer(), nullable=False),
        sa.Column("objects_failing", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "consecutive_failures >= 0", name=op.f("ck_reconciler_status_failures_not_negative")
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_reconciler_status")),
    )
    op.create_table(
        "sign_in_codes",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("code_hash", sa.LargeBinary(), nullable=False),
        sa.Column("tries_left", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("tries_left >= 0", name=op.f("ck_sign_in_codes_tries_not_negative")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sign_in_codes")),
    )
    op.create_index(
        "ix_sign_in_codes_email_created_at", "sign_in_codes", ["email", "created_at"], unique=False
    )
    op.create_table(
        "users",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("email_verified_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("is_operator", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("length(email) BETWEEN 3 AND 254", name=op.f("ck_users_email_length")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("email", name=op.f("uq_users_email")),
    )
    op.create_table(
        "organization_members",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("joined_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("role IN ('admin', 'user')", name=op.f("ck_organization_members_role")),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name=op.f("fk_organization_members_organization_id_organizations"),
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_organization_members_user_id_users")
        ),
        sa.PrimaryKeyConstraint("organization_id", "user_id", name=op.f("pk_organization_members")),
    )
    op.create_index(
        op.f("ix_organization_members_user_id"), "organization_members", ["user_id"], unique=False
    )
    op.create_table(
        "projects",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 63", name=op.f("ck_projects_name_length")),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name=op.f("fk_projects_organization_id_organizations")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("organization_id", "name", name=op.f("uq_projects_organization_id_name")),
    )
    op.create_index(
        "ix_projects_organization_id_created_at", "projects", ["organization_id", "created_at"], unique=False
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_sessions_user_id_users")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_sessions_token_hash")),
    )
    op.create_index(op.f("ix_sessions_user_id"), "sessions", ["user_id"], unique=False)
    op.create_table(
        "sign_in_links",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_sign_in_links_user_id_users")),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_sign_in_links")),
    )
    op.create_table(
        "containers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("instance_type", sa.String(), nullable=False),
        sa.Column("settings", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("secrets", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("desired_state", sa.String(), nullable=False),
        sa.Column("desired_replicas", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("state_since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("message", sa.String(), nullable=True),
        sa.Column("progress", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("failed_generation", sa.Integer(), nullable=False),
        sa.Column("failure_reason", sa.String(), nullable=True),
        sa.Column("failure_message", sa.String(), nullable=True),
        sa.Column("serving_generation", sa.Integer(), nullable=False),
        sa.Column("unready_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("image_generation", sa.Integer(), nullable=False),
        sa.Column("image_ref", sa.String(), nullable=True),
        sa.Column("image_digest", sa.String(), nullable=True),
        sa.Column("port", sa.Integer(), nullable=True),
        sa.Column("reconcile_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("changes", sa.Integer(), nullable=False),
        sa.Column("failed_passes", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "desired_state IN ('running', 'stopped', 'deleted')", name=op.f("ck_containers_desired_state")
        ),
        sa.CheckConstraint(
            "state IN ('PENDING','PULLING','STARTING','RUNNING','STOPPING','STOPPED','FAILED','DELETING')",
            name=op.f("ck_containers_state"),
        ),
        sa.CheckConstraint(
            "desired_replicas BETWEEN 1 AND 1000", name=op.f("ck_containers_desired_replicas")
        ),
        sa.CheckConstraint("length(name) BETWEEN 1 AND 63", name=op.f("ck_containers_name_length")),
        sa.ForeignKeyConstraint(
            ["instance_type"],
            ["instance_types.name"],
            name=op.f("fk_containers_instance_type_instance_types"),
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_containers_project_id_projects")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_containers")),
    )
    op.create_index(
        "ix_containers_project_id_created_at", "containers", ["project_id", "created_at", "id"], unique=False
    )
    op.create_index(
        "ix_containers_reconcile_at",
        "containers",
        ["reconcile_at"],
        unique=False,
        postgresql_where=sa.text("reconcile_at IS NOT NULL"),
    )
    op.create_index(
        "uq_containers_project_id_name",
        "containers",
        ["project_id", "name"],
        unique=True,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_table(
        "project_members",
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("joined_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_project_members_project_id_projects")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_project_members_user_id_users")),
        sa.PrimaryKeyConstraint("project_id", "user_id", name=op.f("pk_project_members")),
    )
    op.create_index(op.f("ix_project_members_user_id"), "project_members", ["user_id"], unique=False)
    op.create_table(
        "replicas",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("container_id", sa.String(), nullable=False),
        sa.Column("slot", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("instance_type", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("node", sa.String(), nullable=False),
        sa.Column("gpu_device_ids", postgresql.ARRAY(sa.String()), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("host_port", sa.Integer(), nullable=False),
        sa.Column("port_released_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("engine_id", sa.String(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ready_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("routed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("draining_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("collected_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("reason", sa.String(), nullable=True),
        sa.Column("message", sa.String(), nullable=True),
        sa.Column("ended_badly", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "state IN ('requested','starting','ready','routed','draining','stopped','collected','removed')",
            name=op.f("ck_replicas_state"),
        ),
        sa.CheckConstraint("slot >= 0", name=op.f("ck_replicas_slot_not_negative")),
        sa.ForeignKeyConstraint(
            ["container_id"], ["containers.id"], name=op.f("fk_replicas_container_id_containers")
        ),
        sa.ForeignKeyConstraint(
            ["instance_type"], ["instance_types.name"], name=op.f("fk_replicas_instance_type_instance_types")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_replicas")),
    )
    op.create_index(
        "ix_replicas_container_id_created_at", "replicas", ["container_id", "created_at"], unique=False
    )
    op.create_index(
        "ix_replicas_not_removed",
        "replicas",
        ["container_id"],
        unique=False,
        postgresql_where=sa.text("state <> 'removed'"),
    )
    op.create_index(
        "uq_replicas_host_port",
        "replicas",
        ["host_port"],
        unique=True,
        postgresql_where=sa.text("port_released_at IS NULL"),
    )
    op.create_index(
        "uq_replicas_live_slot",
        "replicas",
        ["container_id", "generation", "slot"],
        unique=True,
        postgresql_where=sa.text("state IN ('requested', 'starting', 'ready', 'routed')"),
    )
    op.create_table(
        "replica_routes",
        sa.Column("gateway_id", sa.String(), nullable=False),
        sa.Column("replica_id", sa.String(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("in_flight", sa.Integer(), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["gateway_id"],
            ["gateways.id"],
            name=op.f("fk_replica_routes_gateway_id_gateways"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["replica_id"], ["replicas.id"], name=op.f("fk_replica_routes_replica_id_replicas")
        ),
        sa.PrimaryKeyConstraint("gateway_id", "replica_id", name=op.f("pk_replica_routes")),
    )
    op.create_index(op.f("ix_replica_routes_replica_id"), "replica_routes", ["replica_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_replica_routes_replica_id"), table_name="replica_routes")
    op.drop_table("replica_routes")
    op.drop_index(
        "uq_replicas_live_slot",
        table_name="replicas",
        postgresql_where=sa.text("state IN ('requested', 'starting', 'ready', 'routed')"),
    )
    op.drop_index(
        "uq_replicas_host_port", table_name="replicas", postgresql_where=sa.text("port_released_at IS NULL")
    )
    op.drop_index(
        "ix_replicas_not_removed", table_name="replicas", postgresql_where=sa.text("state <> 'removed'")
    )
    op.drop_index("ix_replicas_container_id_created_at", table_name="replicas")
    op.drop_table("replicas")
    op.drop_index(op.f("ix_project_members_user_id"), table_name="project_members")
    op.drop_table("project_members")
    op.drop_index(
        "uq_containers_project_id_name",
        table_name="containers",
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.drop_index(
        "ix_containers_reconcile_at",
        table_name="containers",
        postgresql_where=sa.text("reconcile_at IS NOT NULL"),
    )
    op.drop_index("ix_containers_project_id_created_at", table_name="containers")
    op.drop_table("containers")
    op.drop_table("sign_in_links")
    op.drop_index(op.f("ix_sessions_user_id"), table_name="sessions")
    op.drop_table("sessions")
    op.drop_index("ix_projects_organization_id_created_at", table_name="projects")
    op.drop_table("projects")
    op.drop_index(op.f("ix_organization_members_user_id"), table_name="organization_members")
    op.drop_table("organization_members")
    op.drop_table("users")
    op.drop_index("ix_sign_in_codes_email_created_at", table_name="sign_in_codes")
    op.drop_table("sign_in_codes")
    op.drop_table("reconciler_status")
    op.drop_table("organizations")
    op.drop_table("operator_keys")
    op.drop_table("nodes")
    op.drop_index("ix_mails_created_at_id", table_name="mails")
    op.drop_table("mails")
    op.drop_table("leases")
    op.drop_table("instance_types")
    op.drop_table("installation")
    op.drop_table("gateways")
    op.drop_index("ix_api_keys_project_id_created_at", table_name="api_keys")
    op.drop_table("api_keys")
    op.drop_index("ix_activities_project_id_at", table_name="activities")
    op.drop_index("ix_activities_container_id_at", table_name="activities")
    op.drop_table("activities")

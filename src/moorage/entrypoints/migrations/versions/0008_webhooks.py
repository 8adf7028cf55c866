"""Webhooks, and triggers that put what happens into their queue"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# In the transaction of the change and without another round trip: an event exists exactly when its change does.
_ANNOUNCE = """
CREATE FUNCTION announce_to_webhooks(organization text, event text, data jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    queued integer;
BEGIN
    INSERT INTO webhook_deliveries (id, webhook_id, event, payload)
    SELECT 'msg_' || translate(gen_random_uuid()::text, '-', ''), webhooks.id, announce_to_webhooks.event,
           jsonb_build_object('type', announce_to_webhooks.event, 'organization_id', organization, 'data', data)
    FROM webhooks
    WHERE webhooks.organization_id = organization AND webhooks.disabled_at IS NULL AND EXISTS (
        SELECT FROM unnest(webhooks.events) AS wanted
        WHERE wanted = announce_to_webhooks.event
            OR (wanted LIKE '%*' AND starts_with(announce_to_webhooks.event, left(wanted, -1)))
    );
    GET DIAGNOSTICS queued = ROW_COUNT;
    IF queued > 0 THEN
        PERFORM pg_notify('moorage_webhooks', '');
    END IF;
END $$
"""
_ACTIVITY = """
CREATE FUNCTION announce_activity() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM announce_to_webhooks(
        (SELECT organization_id FROM projects WHERE id = NEW.project_id), NEW.kind, to_jsonb(NEW) - 'kind'
    );
    RETURN NULL;
END $$
"""
_AUDIT = """
CREATE FUNCTION announce_audit_record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM announce_to_webhooks(
        NEW.organization_id, NEW.action, to_jsonb(NEW) - 'action' - 'organization_id'
    );
    RETURN NULL;
END $$
"""


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("events", postgresql.ARRAY(sa.String()), nullable=False),
        sa.Column("sealed_secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disabled_reason", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name="fk_webhooks_organization_id_organizations"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
    )
    op.create_index("ix_webhooks_organization_id", "webhooks", ["organization_id"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("webhook_id", sa.String(), nullable=False),
        sa.Column("event", sa.String(), nullable=False),
        sa.Column("payload", postgresql.JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.Column("next_try_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=True),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name="fk_webhook_deliveries_webhook_id_webhooks",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_deliveries"),
    )
    op.create_index(
        "ix_webhook_deliveries_webhook_id_created_at",
        "webhook_deliveries",
        ["webhook_id", "created_at", "id"],
    )
    op.create_index(
        "ix_webhook_deliveries_next_try_at",
        "webhook_deliveries",
        ["next_try_at"],
        postgresql_where=sa.text("next_try_at IS NOT NULL"),
    )
    for function in (_ANNOUNCE, _ACTIVITY, _AUDIT):
        op.execute(function)
    op.execute(
        "CREATE TRIGGER announce AFTER INSERT ON activities FOR EACH ROW EXECUTE FUNCTION announce_activity()"
    )
    op.execute(
        "CREATE TRIGGER announce AFTER INSERT ON audit_records "
        "FOR EACH ROW EXECUTE FUNCTION announce_audit_record()"
    )


def downgrade() -> None:
    op.execute("DROP TRIGGER announce ON audit_records")
    op.execute("DROP TRIGGER announce ON activities")
    op.execute("DROP FUNCTION announce_audit_record()")
    op.execute("DROP FUNCTION announce_activity()")
    op.execute("DROP FUNCTION announce_to_webhooks(text, text, jsonb)")
    op.drop_table("webhook_deliveries")
    op.drop_table("webhooks")

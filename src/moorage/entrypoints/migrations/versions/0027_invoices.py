"""Invoices and receipts, and whom they are made out to"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0027"
down_revision: str | None = "0026"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "billing_details",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("tax_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name=op.f("fk_billing_details_organization_id_organizations"),
        ),
        sa.PrimaryKeyConstraint("organization_id", name=op.f("pk_billing_details")),
    )
    op.create_table(
        "billing_documents",
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("issued_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("content", postgresql.JSONB(), nullable=False),
        sa.CheckConstraint("kind IN ('invoice', 'receipt')", name=op.f("ck_billing_documents_kind")),
        sa.CheckConstraint("number > 0", name=op.f("ck_billing_documents_number")),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name=op.f("fk_billing_documents_organization_id_organizations"),
        ),
        sa.PrimaryKeyConstraint("kind", "number", name=op.f("pk_billing_documents")),
        sa.UniqueConstraint(
            "kind",
            "organization_id",
            "subject",
            name=op.f("uq_billing_documents_kind_organization_id_subject"),
        ),
    )
    # Written once, as the ledger is, and refused by the same function.
    op.execute(
        "CREATE TRIGGER refuse_changes BEFORE UPDATE OR DELETE OR TRUNCATE ON billing_documents "
        "FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_changes()"
    )
    op.execute("REVOKE UPDATE, DELETE, TRUNCATE ON billing_documents FROM CURRENT_USER, PUBLIC")


def downgrade() -> None:
    op.drop_table("billing_documents")
    op.drop_table("billing_details")

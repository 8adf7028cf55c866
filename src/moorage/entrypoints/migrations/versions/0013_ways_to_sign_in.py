"""Sign-in through providers and for command lines; what each session is"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("sessions", sa.Column("client", sa.String(), server_default="", nullable=False))
    op.alter_column("sessions", "client", server_default=None)
    op.create_table(
        "identities",
        sa.Column("issuer", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_identities_user_id_users")),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_identities")),
    )
    op.create_index(op.f("ix_identities_user_id"), "identities", ["user_id"])
    op.create_table(
        "provider_attempts",
        sa.Column("token_hash", sa.LargeBinary(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("return_to", sa.String(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_provider_attempts")),
    )
    op.create_table(
        "device_logins",
        sa.Column("device_code_hash", sa.LargeBinary(), nullable=False),
        sa.Column("user_code", sa.String(), nullable=False),
        sa.Column("client_name", sa.String(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("decided_by", sa.String(), nullable=True),
        sa.Column("approved", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["decided_by"], ["users.id"], name=op.f("fk_device_logins_decided_by_users")),
        sa.PrimaryKeyConstraint("device_code_hash", name=op.f("pk_device_logins")),
        sa.UniqueConstraint("user_code", name=op.f("uq_device_logins_user_code")),
    )


def downgrade() -> None:
    op.drop_table("device_logins")
    op.drop_table("provider_attempts")
    op.drop_table("identities")
    op.drop_column("sessions", "client")

"""Codes belong to whoever asked for them; the credit to begin with comes once per mailbox and card"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0040"
down_revision: str | None = "0039"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_NOW = sa.text("now()")
# As `kit.email.mailbox` has it: lower case, no tag, and no dots where they mean nothing.
_FILL = """
    WITH parts AS (
        SELECT id, split_part(lower(email), '@', 1) AS local, split_part(lower(email), '@', 2) AS domain FROM users
    ), untagged AS (
        SELECT id, coalesce(nullif(split_part(local, '+', 1), ''), local) AS local, domain FROM parts
    ), mailboxes AS (
        SELECT id, CASE WHEN domain IN ('gmail.com', 'googlemail.com')
            THEN coalesce(nullif(replace(local, '.', ''), ''), local) || '@gmail.com'
            ELSE local || '@' || domain END AS mailbox FROM untagged
    )
    INSERT INTO initial_credits (organization_id, user_id, mailbox_hash, needs, created_at, given_at)
    SELECT t.organization_id, m.id, sha256(convert_to(m.mailbox, 'UTF8')), 'nothing', t.at, t.at
    FROM ledger_transactions t JOIN mailboxes m ON m.id = t.details->>'user_id'
    WHERE t.kind = 'initial_credit' ORDER BY t.at, t.id
    ON CONFLICT DO NOTHING
"""


def upgrade() -> None:
    op.add_column("sign_in_codes", sa.Column("origin", sa.String(), server_default="", nullable=False))
    op.add_column("sign_in_codes", sa.Column("by_stranger", sa.Boolean(), server_default="1", nullable=False))
    op.add_column("sign_in_codes", sa.Column("tries_left_elsewhere", sa.Integer(), nullable=True))
    # Nobody asked for these in a way that can be told: their tries are everybody's, as they were.
    op.execute("UPDATE sign_in_codes SET tries_left_elsewhere = tries_left")
    op.alter_column("sign_in_codes", "tries_left_elsewhere", nullable=False)
    op.alter_column("sign_in_codes", "origin", server_default=None)
    op.alter_column("sign_in_codes", "by_stranger", server_default=None)
    op.create_check_constraint(
        op.f("ck_sign_in_codes_tries_elsewhere_not_negative"), "sign_in_codes", "tries_left_elsewhere >= 0"
    )
    op.create_index("ix_sign_in_codes_origin_created_at", "sign_in_codes", ["origin", "created_at"])
    op.create_table(
        "sign_in_guesses",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("origin", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sign_in_guesses")),
    )
    op.create_index("ix_sign_in_guesses_origin_created_at", "sign_in_guesses", ["origin", "created_at"])
    op.create_table(
        "sign_in_sources",
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.PrimaryKeyConstraint("email", "source", name=op.f("pk_sign_in_sources")),
    )
    op.add_column("device_logins", sa.Column("source", sa.String(), server_default="", nullable=False))
    op.alter_column("device_logins", "source", server_default=None)
    op.create_index("ix_device_logins_source_expires_at", "device_logins", ["source", "expires_at"])
    op.create_index("ix_device_logins_expires_at", "device_logins", ["expires_at"])
    _create_initial_credits()


def _create_initial_credits() -> None:
    op.create_table(
        "initial_credits",
        sa.Column("organization_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("mailbox_hash", sa.LargeBinary(), nullable=True),
        sa.Column("needs", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.Column("given_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("card_fingerprint", sa.String(), nullable=True),
        sa.PrimaryKeyConstraint("organization_id", name=op.f("pk_initial_credits")),
        sa.ForeignKeyConstraint(
            ["organization_id"],
            ["organizations.id"],
            name=op.f("fk_initial_credits_organization_id_organizations"),
        ),
        sa.UniqueConstraint("mailbox_hash", name=op.f("uq_initial_credits_mailbox_hash")),
        sa.UniqueConstraint("card_fingerprint", name=op.f("uq_initial_credits_card_fingerprint")),
        sa.CheckConstraint(
            "needs IN ('nothing', 'card', 'approval', 'another_mailbox')",
            name=op.f("ck_initial_credits_needs"),
        ),
        sa.CheckConstraint(
            "needs <> 'another_mailbox' OR given_at IS NULL",
            name=op.f("ck_initial_credits_given_once_per_mailbox"),
        ),
    )
    # Whoever had it, had it; of several spellings, the first one stands for the mailbox.
    op.execute(_FILL)


def downgrade() -> None:
    op.drop_table("initial_credits")
    op.drop_index("ix_device_logins_expires_at", "device_logins")
    op.drop_index("ix_device_logins_source_expires_at", "device_logins")
    op.drop_column("device_logins", "source")
    op.drop_table("sign_in_sources")
    op.drop_table("sign_in_guesses")
    op.drop_index("ix_sign_in_codes_origin_created_at", "sign_in_codes")
    op.drop_constraint(op.f("ck_sign_in_codes_tries_elsewhere_not_negative"), "sign_in_codes")
    for name in ("origin", "by_stranger", "tries_left_elsewhere"):
        op.drop_column("sign_in_codes", name)

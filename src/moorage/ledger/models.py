"""Tables of money: what every organization has, every movement of it, and the hours that it bought.

Transactions and entries are written once and never again: the application's database role has no right to change
or delete them, and a trigger refuses it to everybody else. Balances are kept beside them, under a lock and a
constraint, and must equal the sum of the entries; `check_repository.py` compares the two.
"""

from datetime import date, datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from moorage.kit.database import Base, CreatedAt


class CreditAccountRow(Base):
    """What an organization has left. Its row is locked by whoever spends: that is what keeps it above zero."""

    __tablename__ = "credit_accounts"
    __table_args__ = (
        CheckConstraint("available_microusd >= 0", name="available_not_negative"),
        CheckConstraint("held_microusd >= 0", name="held_not_negative"),
    )

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    available_microusd: Mapped[int] = mapped_column(BigInteger, default=0)
    """May be spent."""
    held_microusd: Mapped[int] = mapped_column(BigInteger, default=0)
    """Set aside for hours of replicas that are not ready yet."""
    low_credit_told_h: Mapped[int | None]
    """The last warning that the credit ends within so many hours; none since money came in."""


class InitialCreditRow(Base):
    """The credit that an organization made at sign-up begins with: what it needs, and when it was given. Each mailbox
    and each card get it once."""

    __tablename__ = "initial_credits"
    __table_args__ = (
        UniqueConstraint("mailbox_hash"),
        UniqueConstraint("card_fingerprint"),
        CheckConstraint("needs IN ('nothing', 'card', 'approval', 'another_mailbox')", name="needs"),
        CheckConstraint("needs <> 'another_mailbox' OR given_at IS NULL", name="given_once_per_mailbox"),
    )

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    user_id: Mapped[str]
    mailbox_hash: Mapped[bytes | None]
    """SHA-256 of `kit.email.mailbox`; None where another organization has it."""
    needs: Mapped[str]
    """As the settings were at sign-up; `another_mailbox`: this one had it already."""
    created_at: Mapped[CreatedAt]
    given_at: Mapped[datetime | None]
    card_fingerprint: Mapped[str | None]
    """The card that it was given for, as the provider tells cards apart."""


class SpendingLimitRow(Base):
    """What may be spent in a month, by an organization or by one of its projects."""

    __tablename__ = "spending_limits"
    __table_args__ = (
        CheckConstraint("limit_microusd >= 0", name="not_negative"),
        Index("ix_spending_limits_organization_id", "organization_id"),
    )

    scope_id: Mapped[str] = mapped_column(primary_key=True)
    """The organization's id or the project's."""
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    limit_microusd: Mapped[int] = mapped_column(BigInteger)
    told_month: Mapped[date | None]
    """When its admins were last told how much of it is spent, and how much that was."""
    told_percent: Mapped[int] = mapped_column(default=0)


class TransactionRow(Base):
    """One movement of money, as a whole. `key` says what it is about, so that it can happen only once."""

    __tablename__ = "ledger_transactions"
    __table_args__ = (
        UniqueConstraint("key"),
        Index("ix_ledger_transactions_organization_id_at", "organization_id", "at", "id"),
        Index("ix_ledger_transactions_kind_at", "kind", "at"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str]
    kind: Mapped[str]
    organization_id: Mapped[str]
    at: Mapped[CreatedAt]
    details: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)


class EntryRow(Base):
    """What a transaction adds to an account (or takes, below zero). The entries of a transaction add up to zero."""

    __tablename__ = "ledger_entries"
    __table_args__ = (
        CheckConstraint("amount_microusd <> 0", name="moves_something"),
        Index("ix_ledger_entries_account", "account"),
    )

    transaction_id: Mapped[str] = mapped_column(primary_key=True)
    account: Mapped[str] = mapped_column(primary_key=True)
    amount_microusd: Mapped[int] = mapped_column(BigInteger)


class HourRow(Base):
    """An hour of one slot of a container: held for a replica that is coming up, then paid, or released."""

    __tablename__ = "hours"
    __table_args__ = (
        CheckConstraint("state IN ('held', 'paid', 'released')", name="state"),
        CheckConstraint("price_microusd > 0", name="costs_something"),
        CheckConstraint(
            "(state = 'paid') = (bought_at IS NOT NULL) AND (bought_at IS NULL) = (expires_at IS NULL)",
            name="paid_has_times",
        ),
        CheckConstraint("paused_at IS NULL OR state = 'paid'", name="paused_is_paid"),
        # A slot waits for one hour at a time, and an hour is renewed once, whoever tries and however often.
        Index(
            "uq_hours_held_slot", "container_id", "slot", unique=True, postgresql_where=text("state = 'held'")
        ),
        # And it has one that something may follow, also when that one is over: or two would be followed, for good. Of
        # a type, because what is left of an hour is there again when the container goes back to that type.
        Index(
            "uq_hours_live_slot",
            "container_id",
            "slot",
            "instance_type",
            unique=True,
            postgresql_where=text("state = 'held' OR due_at IS NOT NULL"),
        ),
        UniqueConstraint("renews"),
        Index("ix_hours_container_id", "container_id", postgresql_where=text("state <> 'released'")),
        Index("ix_hours_organization_id_bought_at", "organization_id", "bought_at"),
        Index("ix_hours_due_at", "due_at", postgresql_where=text("due_at IS NOT NULL")),
        Index(
            "ix_hours_unsettled",
            "expires_at",
            postgresql_where=text("settled_at IS NULL AND begins_at IS NOT NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    organization_id: Mapped[str]
    project_id: Mapped[str]
    container_id: Mapped[str]
    instance_type: Mapped[str]
    """Of the container. An hour serves whatever of it runs in the slot, on machines of either kind."""
    sibling_type: Mapped[str | None]
    """At whose price it was bought, where the replica took a type of the other kind."""
    slot: Mapped[int]
    price_microusd: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str]
    held_at: Mapped[CreatedAt]
    bought_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]
    paused_at: Mapped[datetime | None]
    """Since when its slot is down through no fault of its owner: what was left of it then is left when it serves again
    (`pauses_repository.py`)."""
    renews: Mapped[str | None]
    """The hour that this one follows without a gap in service."""
    due_at: Mapped[datetime | None]
    """When somebody has to decide what follows this hour; none once that is decided. Then it is for what runs in its
    slot now, and no new replica can count on it. Until then, or while it is held, it is *live*."""
    begins_at: Mapped[datetime | None]
    """Of one that was paid; none of those that were bought before this was written down."""
    length: Mapped[timedelta | None]
    """What was bought. With a pause in it, there is more time than that from its beginning to its end."""
    settled_at: Mapped[datetime | None]
    """When it was over and the owners of the machines that served in it had their part."""


class HourMoveRow(Base):
    """What was left of an hour went to another slot: until then it was for what served in this one."""

    __tablename__ = "hour_moves"

    hour_id: Mapped[str] = mapped_column(primary_key=True)
    moved_at: Mapped[datetime] = mapped_column(primary_key=True)
    from_slot: Mapped[int]


class CreditLotRow(Base):
    """Credit that came in at once: a gift, a card payment, a bank transfer. It is spent from its beginning to its end, so each
    hour has a place in it, and what a bank takes back of it is its end."""

    __tablename__ = "credit_lots"
    __table_args__ = (
        CheckConstraint("source IN ('given', 'card', 'transfer')", name="source"),
        CheckConstraint(
            "spent_microusd >= 0 AND withdrawn_microusd >= 0 AND taken_back_microusd >= 0",
            name="not_below_zero",
        ),
        CheckConstraint("spent_microusd + withdrawn_microusd <= amount_microusd", name="used_once"),
        CheckConstraint("taken_back_microusd <= amount_microusd", name="taken_back_once"),
        Index(
            "ix_credit_lots_left",
            "organization_id",
            postgresql_where=text("spent_microusd + withdrawn_microusd < amount_microusd"),
        ),
    )

    number: Mapped[int] = mapped_column(BigInteger, Identity(always=True))
    """In the order in which they came."""
    id: Mapped[str] = mapped_column(primary_key=True)
    """Of the transaction that booked it."""
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    source: Mapped[str]
    amount_microusd: Mapped[int] = mapped_column(BigInteger)
    spent_microusd: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    """On hours."""
    withdrawn_microusd: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    """Paid back, for this payment or for another that was spent already."""
    taken_back_microusd: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    """Of this payment, by refunds and disputes, whether it was spent or not."""


class HourFundRow(Base):
    """A part of an hour's price, and the place in a lot that it was taken from."""

    __tablename__ = "hour_funds"
    __table_args__ = (
        CheckConstraint("begins_microusd >= 0 AND amount_microusd > 0", name="amounts"),
        Index("ix_hour_funds_lot_id", "lot_id"),
    )

    hour_id: Mapped[str] = mapped_column(primary_key=True)
    lot_id: Mapped[str] = mapped_column(primary_key=True)
    begins_microusd: Mapped[int] = mapped_column(BigInteger)
    amount_microusd: Mapped[int] = mapped_column(BigInteger)


class CreditWithdrawalRow(Base):
    """What a refund took out of a lot, so that one that fails can be put back where it was."""

    __tablename__ = "credit_withdrawals"
    __table_args__ = (CheckConstraint("amount_microusd > 0", name="amount"),)

    transaction_id: Mapped[str] = mapped_column(primary_key=True)
    lot_id: Mapped[str] = mapped_column(primary_key=True)
    amount_microusd: Mapped[int] = mapped_column(BigInteger)

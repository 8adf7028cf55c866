"""SQL of what owners see of their earnings. Reads only."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Date,
    Interval,
    Select,
    bindparam,
    cast,
    func,
    select,
    text,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.earnings.models import EarningRow
from moorage.billing.earnings.rules import MICROSECOND
from moorage.billing.invoices.document import next_month
from moorage.kit.pagination import PageRequest
from moorage.ledger.accounts import Kind, earnings_of
from moorage.ledger.models import EntryRow, TransactionRow
from moorage.machines.models import MachineRow

_MACHINE_ID = TransactionRow.details["machine_id"].astext
_EARNED = (Kind.EARNING, Kind.EARNING_REVERSED, Kind.EARNING_RESTORED)
Entry = tuple[TransactionRow, int, str | None]
"""A transaction, what it did to what was earned, and the machine's name."""


@dataclass(frozen=True)
class MachineMonth:
    machine_id: str
    name: str | None
    served: timedelta
    earned_microusd: int


@dataclass(frozen=True)
class Booked:
    """In one month, of one machine (none: payouts), by one kind of transaction."""

    machine_id: str | None
    machine_name: str | None
    kind: Kind
    amount_microusd: int


async def list_entries(session: AsyncSession, organization_id: str, page: PageRequest) -> list[Entry]:
    row = TransactionRow
    query = _movements(organization_id).with_only_columns(row, EntryRow.amount_microusd, MachineRow.name)
    if page.after is not None:
        query = query.where(tuple_(row.at, row.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(row.at.desc(), row.id.desc()).limit(page.limit + 1)
    return [(found, int(amount), name) for found, amount, name in await session.execute(newest_first)]


async def machines_in(session: AsyncSession, organization_id: str, month: date) -> list[MachineMonth]:
    """By what was earned, the most first. An hour is of the month that it ended in."""
    row = EarningRow
    earned = cast(func.sum(row.card_microusd + row.transfer_microusd), BigInteger)
    query = (
        select(row.machine_id, MachineRow.name, cast(func.sum(row.served_us), BigInteger), earned)
        .outerjoin(MachineRow, MachineRow.id == row.machine_id)
        .where(
            row.owner_organization_id == organization_id,
            row.hour_ended_at >= _start(month),
            row.hour_ended_at < _start(next_month(month)),
        )
        .group_by(row.machine_id, MachineRow.name)
        .order_by(earned.desc(), row.machine_id)
    )
    return [
        MachineMonth(machine_id, name, served_us * MICROSECOND, amount)
        for machine_id, name, served_us, amount in await session.execute(query)
    ]


async def months_of(session: AsyncSession, organization_id: str) -> list[tuple[date, int]]:
    """Those in which something was booked, and what was earned in them; newest first."""
    month = cast(func.date_trunc("month", func.timezone("UTC", TransactionRow.at)), Date)
    earned = func.coalesce(func.sum(EntryRow.amount_microusd).filter(TransactionRow.kind.in_(_EARNED)), 0)
    query = _movements(organization_id).with_only_columns(month, earned).group_by(month)
    return [(first, int(total)) for first, total in await session.execute(query.order_by(month.desc()))]


async def booked_in(session: AsyncSession, organization_id: str, month: date) -> list[Booked]:
    what = (_MACHINE_ID, MachineRow.name, TransactionRow.kind)
    query = (
        _movements(organization_id)
        .where(TransactionRow.at >= _start(month), TransactionRow.at < _start(next_month(month)))
        .with_only_columns(*what, _sum())
        .group_by(*what)
        .order_by(MachineRow.name, *what)
    )
    return [
        Booked(machine_id, name, Kind(kind), int(total))
        for machine_id, name, kind, total in await session.execute(query)
    ]


async def balance_at_the_end_of(session: AsyncSession, organization_id: str, month: date) -> int:
    before = TransactionRow.at < _start(next_month(month))
    query = _movements(organization_id).where(before).with_only_columns(func.coalesce(_sum(), 0))
    return int((await session.execute(query)).scalar_one())


async def missing_statements(
    session: AsyncSession, closes_after: timedelta, limit: int
) -> list[tuple[str, str]]:
    """(Organization, month) of the oldest month that is over and lacks some."""
    rows = (await session.execute(_MISSING, {"closes_after": closes_after, "limit": limit})).all()
    return [(who, month) for who, month in rows if month == rows[0].month]


def _movements(organization_id: str) -> Select[TransactionRow]:
    return (
        select(TransactionRow)
        .join(
            EntryRow,
            (EntryRow.transaction_id == TransactionRow.id)
            & (EntryRow.account == earnings_of(organization_id)),
        )
        .outerjoin(MachineRow, MachineRow.id == _MACHINE_ID)
        .where(TransactionRow.organization_id == organization_id)
    )


def _sum() -> ColumnElement[int]:
    # Postgres adds integers up to a decimal number.
    return func.sum(EntryRow.amount_microusd)


def _start(month: date) -> datetime:
    return datetime.combine(month, time(), UTC)


# Who has earned anything is found in the index, from one to the next: of each there may be millions of movements in a month, and this is
# asked twice a minute.
_MISSING = text("""
WITH RECURSIVE owners AS (
    (SELECT owner_organization_id AS id FROM earnings ORDER BY owner_organization_id LIMIT 1)
    UNION ALL
    SELECT (
        SELECT owner_organization_id FROM earnings WHERE owner_organization_id > owners.id
        ORDER BY owner_organization_id LIMIT 1
    ) FROM owners WHERE owners.id IS NOT NULL
), oldest AS (
    SELECT coalesce(
        (SELECT max(subject) FROM billing_documents WHERE kind = 'statement'),
        (SELECT to_char(min(at) AT TIME ZONE 'UTC', 'YYYY-MM') FROM ledger_transactions WHERE kind = 'earning')
    ) AS month
), months AS (
    SELECT to_char(month.at, 'YYYY-MM') AS name, month.at AT TIME ZONE 'UTC' AS begins,
        (month.at + interval '1 month') AT TIME ZONE 'UTC' AS ends
    FROM oldest, generate_series(
        to_date(oldest.month, 'YYYY-MM')::timestamp,
        date_trunc('month', (now() - :closes_after) AT TIME ZONE 'UTC') - interval '1 month', interval '1 month'
    ) AS month (at)
)
SELECT owners.id, months.name AS month
FROM months, owners, LATERAL (
    SELECT FROM ledger_transactions AS movement
    WHERE movement.organization_id = owners.id AND movement.at >= months.begins AND movement.at < months.ends
        AND movement.kind IN ('earning', 'earning_reversed', 'earning_restored', 'payout')
    LIMIT 1
) AS booked
WHERE owners.id IS NOT NULL AND NOT EXISTS (
    SELECT FROM billing_documents AS document
    WHERE document.kind = 'statement' AND document.organization_id = owners.id AND document.subject = months.name
)
ORDER BY months.name, owners.id
LIMIT :limit
""").bindparams(bindparam("closes_after", type_=Interval))

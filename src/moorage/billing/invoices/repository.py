"""SQL of invoices and receipts. Their amounts come from the ledger's entries and from nowhere else."""

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
    exists,
    func,
    select,
    text,
    tuple_,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.invoices.document import (
    Document,
    DocumentKind,
    Party,
    Usage,
    from_json,
    next_month,
    to_json,
)
from moorage.billing.invoices.models import BillingDetailsRow, BillingDocumentRow
from moorage.containers.models import ContainerRow
from moorage.kit.pagination import PageRequest
from moorage.ledger.accounts import USAGE, Kind, credit_of
from moorage.ledger.models import EntryRow, TransactionRow
from moorage.organizations.models import OrganizationRow, ProjectRow

CLOSES_AFTER = timedelta(hours=1)
"""What was booked before midnight has been committed by then."""
PAYMENTS = (Kind.CARD_TOP_UP, Kind.BANK_TRANSFER)


@dataclass(frozen=True)
class Missing:
    """A document that is due and was not issued."""

    kind: DocumentKind
    organization_id: str
    subject: str


@dataclass(frozen=True)
class MonthTotal:
    month: date
    total_microusd: int


Payment = tuple[TransactionRow, int]
"""The transaction, and what came in."""


async def list_months(session: AsyncSession, organization_id: str) -> list[MonthTotal]:
    """Those in which hours were bought, newest first."""
    month = _month()
    query = _charges(organization_id).with_only_columns(month, _sum()).group_by(month)
    return [MonthTotal(*row) for row in await session.execute(query.order_by(month.desc()))]


async def usage_of(session: AsyncSession, organization_id: str, month: date) -> list[Usage]:
    details = TransactionRow.details
    project_id, container_id = details["project_id"].astext, details["container_id"].astext
    what = (
        project_id,
        ProjectRow.name,
        container_id,
        ContainerRow.name,
        details["instance_type"].astext,
        EntryRow.amount_microusd,
    )
    query = (
        _charges(organization_id)
        .where(TransactionRow.at >= _start(month), TransactionRow.at < _start(next_month(month)))
        .outerjoin(ProjectRow, ProjectRow.id == project_id)
        .outerjoin(ContainerRow, ContainerRow.id == container_id)
        .with_only_columns(*what, func.count(), _sum())
        .group_by(*what)
        .order_by(ProjectRow.name, ContainerRow.name, *what)
    )
    return [Usage(*row) for row in await session.execute(query)]


async def list_payments(session: AsyncSession, organization_id: str, page: PageRequest) -> list[Payment]:
    """Newest first."""
    query = _payments(organization_id)
    if page.after is not None:
        query = query.where(tuple_(TransactionRow.at, TransactionRow.id) < (page.after.time, page.after.id))
    newest_first = query.order_by(TransactionRow.at.desc(), TransactionRow.id.desc()).limit(page.limit + 1)
    return [(row, amount) for row, amount in await session.execute(newest_first)]


async def find_payment(session: AsyncSession, organization_id: str, transaction_id: str) -> Payment | None:
    query = _payments(organization_id).where(TransactionRow.id == transaction_id)
    found = (await session.execute(query)).one_or_none()
    return (found[0], found[1]) if found is not None else None


async def issued(
    session: AsyncSession, kind: DocumentKind, organization_id: str, *subjects: str
) -> dict[str, Document]:
    """By subject; those that were not issued are absent."""
    row = BillingDocumentRow
    query = select(row).where(
        row.kind == kind, row.organization_id == organization_id, row.subject.in_(subjects)
    )
    return {
        one.subject: from_json(kind, one.number, one.issued_at, one.content)
        for one in (await session.execute(query)).scalars()
    }


async def issue(session: AsyncSession, what: Missing, document: Document) -> int | None:
    """Its number: the next one of its kind. None where it was issued already."""
    # One after the other: a number that a transaction took and gave back would be a gap.
    await session.execute(select(func.pg_advisory_xact_lock(func.hashtext("billing_documents"))))
    row = BillingDocumentRow
    last = select(func.coalesce(func.max(row.number), 0)).where(row.kind == what.kind)
    number = (await session.execute(last)).scalar_one() + 1
    new = insert(row).values(
        kind=what.kind,
        number=number,
        organization_id=what.organization_id,
        subject=what.subject,
        content=to_json(document),
    )
    there = [row.kind, row.organization_id, row.subject]
    inserted = new.on_conflict_do_nothing(index_elements=there).returning(row.number)
    return (await session.execute(inserted)).scalar_one_or_none()


async def list_missing(session: AsyncSession, limit: int) -> list[Missing]:
    """Receipts first, then the invoices of the oldest month that is over and lacks one."""
    found = await _missing_receipts(session, limit)
    return found or await _missing_invoices(session, limit)


async def details_of(session: AsyncSession, organization_id: str) -> Party:
    """As its admins set them; by default its name alone."""
    query = (
        select(OrganizationRow.name, BillingDetailsRow)
        .outerjoin(BillingDetailsRow, BillingDetailsRow.organization_id == OrganizationRow.id)
        .where(OrganizationRow.id == organization_id)
    )
    name, row = (await session.execute(query)).one()
    return Party(row.name or name, row.address, row.tax_id) if row is not None else Party(name)


async def stored_details(session: AsyncSession, organization_id: str) -> Party:
    """Only what was set."""
    row = await session.get(BillingDetailsRow, organization_id)
    return Party(row.name, row.address, row.tax_id) if row is not None else Party("")


async def store_details(session: AsyncSession, organization_id: str, details: Party) -> None:
    values = {"name": details.name, "address": details.address, "tax_id": details.tax_id}
    upsert = insert(BillingDetailsRow).values(organization_id=organization_id, **values)
    await session.execute(
        upsert.on_conflict_do_update(index_elements=[BillingDetailsRow.organization_id], set_=values)
    )


def _charges(organization_id: str) -> Select[TransactionRow]:
    """Hours that were bought, with what each added to what was earned."""
    return (
        select(TransactionRow)
        .join(EntryRow, (EntryRow.transaction_id == TransactionRow.id) & (EntryRow.account == USAGE))
        .where(TransactionRow.organization_id == organization_id, TransactionRow.kind == Kind.USAGE)
    )


def _payments(organization_id: str) -> Select[TransactionRow, int]:
    credit = EntryRow.account == credit_of(organization_id)
    return (
        select(TransactionRow, EntryRow.amount_microusd)
        .join(EntryRow, (EntryRow.transaction_id == TransactionRow.id) & credit)
        .where(TransactionRow.organization_id == organization_id, TransactionRow.kind.in_(PAYMENTS))
    )


def _month() -> ColumnElement[date]:
    return cast(func.date_trunc("month", func.timezone("UTC", TransactionRow.at)), Date)


def _sum() -> ColumnElement[int]:
    # Postgres adds integers up to a decimal number.
    return cast(func.sum(EntryRow.amount_microusd), BigInteger)


def _start(month: date) -> datetime:
    return datetime.combine(month, time(), UTC)


async def _missing_receipts(session: AsyncSession, limit: int) -> list[Missing]:
    row = BillingDocumentRow
    there = exists().where(row.kind == DocumentKind.RECEIPT, row.subject == TransactionRow.id)
    query = (
        select(TransactionRow.organization_id, TransactionRow.id)
        .where(TransactionRow.kind.in_(PAYMENTS), ~there)
        .order_by(TransactionRow.at, TransactionRow.id)
        .limit(limit)
    )
    return [Missing(DocumentKind.RECEIPT, *found) for found in await session.execute(query)]


async def _missing_invoices(session: AsyncSession, limit: int) -> list[Missing]:
    """Months are closed one after the other, so none before the newest invoice's needs a look."""
    rows = (await session.execute(_MISSING_INVOICES, {"closes_after": CLOSES_AFTER, "limit": limit})).all()
    return [Missing(DocumentKind.INVOICE, who, month) for who, month in rows if month == rows[0].month]


_MISSING_INVOICES = text("""
WITH newest AS (SELECT coalesce(max(subject), '2000-01') AS month FROM billing_documents WHERE kind = 'invoice'),
due AS (
    SELECT DISTINCT organization_id, to_char(at AT TIME ZONE 'UTC', 'YYYY-MM') AS month
    FROM ledger_transactions
    WHERE kind = 'usage'
        AND at >= to_date((SELECT month FROM newest), 'YYYY-MM')::timestamp AT TIME ZONE 'UTC'
        AND at < date_trunc('month', (now() - :closes_after) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
)
SELECT due.organization_id, due.month
FROM due
WHERE NOT EXISTS (
    SELECT FROM billing_documents AS document
    WHERE document.kind = 'invoice' AND document.organization_id = due.organization_id
        AND document.subject = due.month
)
ORDER BY due.month, due.organization_id
LIMIT :limit
""").bindparams(bindparam("closes_after", type_=Interval))

"""Invoices and receipts as they are now: as issued, or, while a month is not closed, as they would be."""

from datetime import date, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.earnings.statements import statement_of
from moorage.billing.earnings.views_repository import missing_statements
from moorage.billing.invoices import repository
from moorage.billing.invoices.document import (
    Document,
    DocumentKind,
    Line,
    Party,
    month_of,
    next_month,
    usage_lines,
)
from moorage.billing.invoices.repository import Missing, Payment
from moorage.billing.invoices.schemas import BillingDetailsPatch
from moorage.billing.views.words import describe
from moorage.kit.errors import NotFoundError
from moorage.kit.settings import Settings
from moorage.organizations.access import OrganizationAccess
from moorage.organizations.audit.repository import record_audit


async def invoice_of(
    session: AsyncSession, settings: Settings, organization_id: str, month: date
) -> Document:
    subject = f"{month:%Y-%m}"
    found = await repository.issued(session, DocumentKind.INVOICE, organization_id, subject)
    if subject in found:
        return found[subject]
    usage = await repository.usage_of(session, organization_id, month)
    if not usage:
        raise NotFoundError("There is no invoice for this month, because nothing was bought in it.")
    return Document(
        kind=DocumentKind.INVOICE,
        number=None,
        dated=next_month(month) - timedelta(days=1),
        issued_at=None,
        seller=_seller(settings),
        buyer=await repository.details_of(session, organization_id),
        lines=usage_lines(usage),
        note=settings.invoice_note or "",
    )


async def receipt_of(
    session: AsyncSession, settings: Settings, organization_id: str, transaction_id: str
) -> Document:
    found = await repository.issued(session, DocumentKind.RECEIPT, organization_id, transaction_id)
    if transaction_id in found:
        return found[transaction_id]
    payment = await repository.find_payment(session, organization_id, transaction_id)
    if payment is None:
        raise NotFoundError("There is no such payment.")
    return Document(
        kind=DocumentKind.RECEIPT,
        number=None,
        dated=payment[0].at.date(),
        issued_at=None,
        seller=_seller(settings),
        buyer=await repository.details_of(session, organization_id),
        lines=(_payment_line(payment),),
        note=settings.invoice_note or "",
    )


async def document_for(session: AsyncSession, settings: Settings, what: Missing) -> Document:
    """What a missing one is to say."""
    if what.kind is DocumentKind.RECEIPT:
        return await receipt_of(session, settings, what.organization_id, what.subject)
    month = month_of(what.subject)
    assert month is not None, "the database wrote it"
    if what.kind is DocumentKind.STATEMENT:
        return await statement_of(session, settings, what.organization_id, month)
    return await invoice_of(session, settings, what.organization_id, month)


async def list_missing(session: AsyncSession, limit: int) -> list[Missing]:
    """Receipts and invoices first, then the statements of what owners earned."""
    found = await repository.list_missing(session, limit)
    if found:
        return found
    statements = await missing_statements(session, repository.CLOSES_AFTER, limit)
    return [Missing(DocumentKind.STATEMENT, who, month) for who, month in statements]


async def change_details(
    session: AsyncSession, access: OrganizationAccess, patch: BillingDetailsPatch
) -> Party:
    organization_id = access.organization.id
    before = await repository.stored_details(session, organization_id)
    sent = patch.model_dump(include=patch.model_fields_set)
    wanted = Party(**(vars(before) | sent))
    if wanted != before:
        await repository.store_details(session, organization_id, wanted)
        record_audit(
            session,
            organization_id,
            actor=access.actor.id,
            action="billing.details",
            target=organization_id,
            fields=sorted(name for name, value in sent.items() if value != getattr(before, name)),
        )
    return await repository.details_of(session, organization_id)


def _seller(settings: Settings) -> Party:
    return Party(settings.seller_name, settings.seller_address or "", settings.seller_tax_id or "")


def _payment_line(payment: Payment) -> Line:
    row, amount_microusd = payment
    reference = row.details.get("reference")
    what = describe(row.kind, {})
    return Line(f"{what}, reference {reference}" if reference else what, amount_microusd)

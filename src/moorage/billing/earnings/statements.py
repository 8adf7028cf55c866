"""What an owner's machines earned in a month, as a document: as issued, or, while the month is not closed, as it would be."""

from datetime import date, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.earnings import views_repository
from moorage.billing.earnings.views_repository import Booked
from moorage.billing.invoices import repository
from moorage.billing.invoices.document import Document, DocumentKind, Line, Party, next_month
from moorage.kit.errors import NotFoundError
from moorage.kit.money import format_usd
from moorage.kit.settings import Settings
from moorage.ledger.accounts import Kind

_SUFFIXES = {
    Kind.EARNING: "",
    Kind.EARNING_REVERSED: ": taken back",
    Kind.EARNING_RESTORED: ": given back after all",
}


async def statement_of(
    session: AsyncSession, settings: Settings, organization_id: str, month: date
) -> Document:
    subject = f"{month:%Y-%m}"
    found = await repository.issued(session, DocumentKind.STATEMENT, organization_id, subject)
    if subject in found:
        return found[subject]
    booked = await views_repository.booked_in(session, organization_id, month)
    if not booked:
        raise NotFoundError("There is no statement for this month, because nothing was earned or sent in it.")
    sent = -sum(one.amount_microusd for one in booked if one.kind is Kind.PAYOUT)
    balance = await views_repository.balance_at_the_end_of(session, organization_id, month)
    return Document(
        kind=DocumentKind.STATEMENT,
        number=None,
        dated=next_month(month) - timedelta(days=1),
        issued_at=None,
        seller=Party(settings.seller_name, settings.seller_address or "", settings.seller_tax_id or ""),
        buyer=await repository.details_of(session, organization_id),
        lines=tuple(_line(one) for one in booked if one.kind in _SUFFIXES),
        note=f"Sent to your bank account in this month: {format_usd(sent)}. Earned but not sent by its end: "
        f"{format_usd(balance)}, part of which may be held.",
    )


def _line(booked: Booked) -> Line:
    return Line(f"{booked.machine_name or booked.machine_id}{_SUFFIXES[booked.kind]}", booked.amount_microusd)

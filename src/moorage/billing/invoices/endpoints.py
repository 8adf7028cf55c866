from dataclasses import asdict
from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.invoices import repository, service
from moorage.billing.invoices.document import Document, DocumentKind, month_of
from moorage.billing.invoices.rendering import rendered
from moorage.billing.invoices.schemas import (
    BillingDetails,
    BillingDetailsPatch,
    BillingDocument,
    DocumentLine,
    InvoiceList,
    InvoiceSummary,
    ReceiptSummary,
)
from moorage.billing.views.words import describe
from moorage.kit.errors import NotFoundError
from moorage.kit.jobs.jobs import Jobs
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.web import TheJobs, TheSession, TheSettings
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["billing"])
Payer = Annotated[OrganizationAccess, Depends(organization_with(Permission.BILLING_MANAGE))]
PDF: dict[int | str, dict[str, Any]] = {200: {"content": {"application/pdf": {}}}}


@router.get("/organizations/{organization_id}/billing/details", summary="Get billing details")
async def get_details(access: Payer, session: TheSession) -> BillingDetails:
    """Returns the name, address and tax id that documents are issued to."""
    return BillingDetails(**asdict(await repository.details_of(session, access.organization.id)))


@router.patch("/organizations/{organization_id}/billing/details", summary="Change billing details")
async def change_details(body: BillingDetailsPatch, access: Payer, session: TheSession) -> BillingDetails:
    """Documents issued from now on carry the new details. Issued ones never change."""
    return BillingDetails(**asdict(await service.change_details(session, access, body)))


@router.get("/organizations/{organization_id}/billing/invoices", summary="List invoices")
async def list_invoices(access: Payer, session: TheSession) -> InvoiceList:
    """Lists one invoice for each month with purchases, newest first."""
    organization_id = access.organization.id
    months = await repository.list_months(session, organization_id)
    subjects = [f"{one.month:%Y-%m}" for one in months]
    issued = await repository.issued(session, DocumentKind.INVOICE, organization_id, *subjects)
    items = []
    for one, month in zip(months, subjects, strict=True):
        document = issued.get(month)
        items.append(
            InvoiceSummary(
                month=month,
                state="issued" if document else "open",
                number=document.name if document else None,
                issued_at=document.issued_at if document else None,
                total_microusd=document.total_microusd if document else one.total_microusd,
            )
        )
    return InvoiceList(items=items)


@router.get("/organizations/{organization_id}/billing/invoices/{month}", summary="Get an invoice")
async def get_invoice(
    month: str, access: Payer, session: TheSession, settings: TheSettings
) -> BillingDocument:
    """Returns the invoice of a month such as `2026-11`. Once the month is over it has a number and never
    changes."""
    return shown_document(
        await service.invoice_of(session, settings, access.organization.id, first_day(month))
    )


@router.get(
    "/organizations/{organization_id}/billing/invoices/{month}/pdf",
    summary="Download an invoice",
    response_class=Response,
    responses=PDF,
)
async def get_invoice_pdf(
    month: str, access: Payer, session: TheSession, settings: TheSettings, jobs: TheJobs
) -> Response:
    """Returns the invoice of a month as a PDF file."""
    document = await service.invoice_of(session, settings, access.organization.id, first_day(month))
    return await pdf_response(session, jobs, access.actor.shares_as, document)


@router.get("/organizations/{organization_id}/billing/receipts", summary="List receipts")
async def list_receipts(
    access: Payer, session: TheSession, paging: Annotated[PageRequest, Depends(page_request)]
) -> Page[ReceiptSummary]:
    """Lists one receipt for each payment, newest first."""
    organization_id = access.organization.id
    payments = await repository.list_payments(session, organization_id, paging)
    subjects = [row.id for row, _ in payments]
    issued = await repository.issued(session, DocumentKind.RECEIPT, organization_id, *subjects)
    items = [
        ReceiptSummary(
            id=row.id,
            at=row.at,
            number=issued[row.id].name if row.id in issued else None,
            description=describe(row.kind, {}),
            total_microusd=amount_microusd,
        )
        for row, amount_microusd in payments
    ]
    return page_of(items, paging, lambda item: Position(item.at, item.id))


@router.get("/organizations/{organization_id}/billing/receipts/{transaction_id}", summary="Get a receipt")
async def get_receipt(
    transaction_id: str, access: Payer, session: TheSession, settings: TheSettings
) -> BillingDocument:
    """Returns the receipt of one payment."""
    return shown_document(await service.receipt_of(session, settings, access.organization.id, transaction_id))


@router.get(
    "/organizations/{organization_id}/billing/receipts/{transaction_id}/pdf",
    summary="Download a receipt",
    response_class=Response,
    responses=PDF,
)
async def get_receipt_pdf(
    transaction_id: str, access: Payer, session: TheSession, settings: TheSettings, jobs: TheJobs
) -> Response:
    """Returns the receipt of one payment as a PDF file."""
    document = await service.receipt_of(session, settings, access.organization.id, transaction_id)
    return await pdf_response(session, jobs, access.actor.shares_as, document)


def first_day(month: str) -> date:
    first = month_of(month)
    if first is None:
        raise NotFoundError("There is no such month; write it as 2026-11.")
    return first


async def pdf_response(session: AsyncSession, jobs: Jobs, owner: str, document: Document) -> Response:
    await session.commit()  # gives the connection back
    # Fonts are cut to what is used, which takes a good part of a second: not in the process that serves everybody.
    content = await jobs.run(owner, rendered, document)
    disposition = f'attachment; filename="{document.name}.pdf"'
    return Response(content, media_type="application/pdf", headers={"Content-Disposition": disposition})


def shown_document(document: Document) -> BillingDocument:
    return BillingDocument(
        kind=document.kind.value,
        number=document.name if document.number is not None else None,
        dated=document.dated,
        issued_at=document.issued_at,
        seller=BillingDetails(**asdict(document.seller)),
        buyer=BillingDetails(**asdict(document.buyer)),
        lines=[DocumentLine(**asdict(line)) for line in document.lines],
        total_microusd=document.total_microusd,
        note=document.note,
    )

from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from moorage.billing.earnings import views_repository
from moorage.billing.earnings.balance_repository import earnings_balance
from moorage.billing.earnings.schemas import (
    EarningEntry,
    Earnings,
    MachineEarnings,
    MonthEarnings,
    StatementList,
    StatementSummary,
)
from moorage.billing.earnings.statements import statement_of
from moorage.billing.invoices import repository as documents
from moorage.billing.invoices.document import DocumentKind
from moorage.billing.invoices.endpoints import PDF, first_day, pdf_response, shown_document
from moorage.billing.invoices.schemas import BillingDocument
from moorage.billing.views.words import describe
from moorage.kit.database import database_now
from moorage.kit.pagination import PageRequest, Position, page_of, page_request
from moorage.kit.web import TheJobs, TheSession, TheSettings
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission

router = APIRouter(tags=["earnings"])
Payer = Annotated[OrganizationAccess, Depends(organization_with(Permission.BILLING_MANAGE))]


@router.get("/organizations/{organization_id}/earnings", summary="Get earnings")
async def get_earnings(
    access: Payer,
    session: TheSession,
    settings: TheSettings,
    paging: Annotated[PageRequest, Depends(page_request)],
) -> Earnings:
    """Returns what the organization's machines earned, how much of it can be sent, and its newest movements."""
    balance = await earnings_balance(session, access.organization.id)
    rows = await views_repository.list_entries(session, access.organization.id, paging)
    page = page_of([_entry(*row) for row in rows], paging, lambda item: Position(item.at, item.id))
    return Earnings(
        held_microusd=balance.held_microusd,
        payable_microusd=balance.payable_microusd,
        requested_microusd=balance.requested_microusd,
        paid_microusd=balance.paid_microusd,
        owed_microusd=balance.owed_microusd,
        next_payable_at=balance.next_payable_at,
        share_percent=settings.owners_share_percent,
        least_payout_microusd=settings.least_payout_microusd,
        entries=page.items,
        next_cursor=page.next_cursor,
    )


@router.get("/organizations/{organization_id}/earnings/machines", summary="List what machines earned")
async def list_machine_earnings(
    access: Payer,
    session: TheSession,
    month: Annotated[
        str | None, Query(max_length=7, description="Such as `2026-11`. Default: this month.")
    ] = None,
) -> MonthEarnings:
    """Lists what each machine served and earned in a month (UTC), highest earnings first."""
    first = first_day(month) if month is not None else (await database_now(session)).date().replace(day=1)
    found = await views_repository.machines_in(session, access.organization.id, first)
    items = [
        MachineEarnings(
            machine_id=one.machine_id,
            name=one.name,
            served_s=int(one.served.total_seconds()),
            earned_microusd=one.earned_microusd,
        )
        for one in found
    ]
    return MonthEarnings(
        month=_named(first),
        served_s=sum(one.served_s for one in items),
        earned_microusd=sum(one.earned_microusd for one in items),
        items=items,
    )


@router.get("/organizations/{organization_id}/earnings/statements", summary="List statements")
async def list_statements(access: Payer, session: TheSession) -> StatementList:
    """Lists one statement for each month with earnings or payouts, newest first."""
    organization_id = access.organization.id
    months = await views_repository.months_of(session, organization_id)
    subjects = [_named(month) for month, _ in months]
    issued = await documents.issued(session, DocumentKind.STATEMENT, organization_id, *subjects)
    return StatementList(
        items=[
            StatementSummary(
                month=subject,
                state="issued" if subject in issued else "open",
                number=issued[subject].name if subject in issued else None,
                total_microusd=issued[subject].total_microusd if subject in issued else total,
            )
            for subject, (_, total) in zip(subjects, months, strict=True)
        ]
    )


@router.get("/organizations/{organization_id}/earnings/statements/{month}", summary="Get a statement")
async def get_statement(
    month: str, access: Payer, session: TheSession, settings: TheSettings
) -> BillingDocument:
    """Returns the statement of a month such as `2026-11`. Once the month is over it has a number and never
    changes."""
    return shown_document(await statement_of(session, settings, access.organization.id, first_day(month)))


@router.get(
    "/organizations/{organization_id}/earnings/statements/{month}/pdf",
    summary="Download a statement",
    response_class=Response,
    responses=PDF,
)
async def get_statement_pdf(
    month: str, access: Payer, session: TheSession, settings: TheSettings, jobs: TheJobs
) -> Response:
    """Returns the statement of a month as a PDF file."""
    document = await statement_of(session, settings, access.organization.id, first_day(month))
    return await pdf_response(session, jobs, access.actor.shares_as, document)


def _entry(row: Any, amount_microusd: int, machine_name: str | None) -> EarningEntry:
    return EarningEntry(
        id=row.id,
        at=row.at,
        kind=row.kind,
        amount_microusd=amount_microusd,
        description=describe(row.kind, {}),
        machine_id=row.details.get("machine_id"),
        machine_name=machine_name,
    )


def _named(month: date) -> str:
    return f"{month:%Y-%m}"

from collections.abc import AsyncIterator
from datetime import date, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.cards.access import OptionalCardProvider
from moorage.billing.views import repository
from moorage.billing.views.entries_repository import Entry, EntrySort
from moorage.billing.views.entries_repository import list_entries as read_entries
from moorage.billing.views.outlook import outlook
from moorage.billing.views.schemas import (
    BalanceHistory,
    Billing,
    DayBalance,
    LedgerEntry,
    PaymentMethod,
    UsageItem,
    UsageList,
)
from moorage.billing.views.words import describe, forecast_sentence, initial_credit_sentence
from moorage.kit.csv import CSV_ANSWER, csv_answer, csv_line, csv_lines
from moorage.kit.errors import FieldError, InvalidInputError
from moorage.kit.pagination import Page, PageRequest, Position, page_of, page_request
from moorage.kit.settings import Settings
from moorage.kit.streams import StreamKind
from moorage.kit.web import TheClock, TheDatabase, TheSession, TheSettings, TheStreams
from moorage.ledger.initial_credit_repository import find_initial_credit
from moorage.organizations.access import OrganizationAccess, organization_with
from moorage.organizations.permissions import Permission, Role
from moorage.organizations.repository import joined_project_ids

router = APIRouter(tags=["billing"])
Viewer = Annotated[OrganizationAccess, Depends(organization_with(Permission.BILLING_VIEW))]
Payer = Annotated[OrganizationAccess, Depends(organization_with(Permission.BILLING_MANAGE))]

LONGEST = timedelta(days=400)
MOST_USAGE_ITEMS = 5000
"""Of one answer, which is written at a stretch."""
_USAGE_COLUMNS = tuple(UsageItem.model_fields)
_ENTRY_COLUMNS = ("at", "id", "kind", "amount_microusd", "description")

Days = tuple[date, date]


async def days_of(
    clock: TheClock,
    first: Annotated[date | None, Query(alias="from")] = None,
    last: Annotated[date | None, Query(alias="to")] = None,
) -> Days:
    """Both inclusive, in UTC. Default: this month so far."""
    today = clock.now().date()
    last = last or today
    first = first or last.replace(day=1)
    if first > last or last - first > LONGEST:
        fields = (FieldError("from", f"must be before `to`, and at most {LONGEST.days} days before it"),)
        raise InvalidInputError("The time range is not valid.", fields=fields)
    return first, last


TheDays = Annotated[Days, Depends(days_of)]


@router.get("/organizations/{organization_id}/billing", summary="Get the credit")
async def get_billing(
    access: Viewer, session: TheSession, settings: TheSettings, cards: OptionalCardProvider
) -> Billing:
    """Returns the balance, what is on hold, what is being spent and when it runs out."""
    found = await outlook(session, access.organization.id, timedelta(seconds=settings.billing_hour_s))
    balance, ahead = found.balance, found.forecast
    initial = await find_initial_credit(session, access.organization.id)
    waits_for = initial.needs if initial is not None and initial.given_at is None else "nothing"
    return Billing(
        balance_microusd=balance.total_microusd,
        available_microusd=balance.available_microusd,
        held_microusd=balance.held_microusd,
        burn_per_hour_microusd=ahead.burn_now_microusd,
        burn_maximum_per_hour_microusd=ahead.burn_maximum_microusd,
        runs_out_at=ahead.runs_out_at,
        forecast=forecast_sentence(ahead),
        suspended=access.organization.suspended_at is not None,
        initial_credit=initial_credit_sentence(waits_for, settings.support_contact),
        payment_methods=_payment_methods(settings, with_cards=cards is not None),
        payment_contact=settings.support_contact,
    )


def _payment_methods(settings: Settings, *, with_cards: bool) -> list[PaymentMethod]:
    set_up: dict[PaymentMethod, bool] = {
        "card": with_cards,
        "bank_transfer_local": settings.bank_details_local is not None,
        "bank_transfer_international": settings.bank_details_international is not None,
    }
    return [method for method, is_set_up in set_up.items() if is_set_up]


@router.get("/organizations/{organization_id}/billing/entries", summary="List ledger entries")
async def list_entries(
    access: Payer,
    session: TheSession,
    paging: Annotated[PageRequest, Depends(page_request)],
    only: Annotated[
        EntrySort | None, Query(description="Hours that were bought, or everything else.")
    ] = None,
) -> Page[LedgerEntry]:
    """Lists every movement of money, newest first. Each hour names its container."""
    found = await read_entries(session, access.organization.id, paging, only)
    return page_of([_entry(one) for one in found], paging, _position)


@router.get(
    "/organizations/{organization_id}/billing/entries/export",
    summary="Export ledger entries",
    response_class=StreamingResponse,
    responses=CSV_ANSWER,
)
async def export_entries(
    access: Payer, database: TheDatabase, settings: TheSettings, streams: TheStreams
) -> StreamingResponse:
    """Returns every movement of money as CSV, newest first."""
    organization_id = access.organization.id

    async def read(page: PageRequest) -> list[LedgerEntry]:
        async with database.reading() as session:
            return [_entry(one) for one in await read_entries(session, organization_id, page)]

    lines = csv_lines(_ENTRY_COLUMNS, read, _entry_cells, _position)
    stream = streams.take(StreamKind.DOWNLOADS, access.actor.shares_as, settings.downloads_per_person)
    return csv_answer(f"entries-{organization_id}.csv", lines, stream)


@router.get("/organizations/{organization_id}/billing/balance", summary="Get the balance of each day")
async def get_balance_history(access: Payer, session: TheSession, days: TheDays) -> BalanceHistory:
    """Returns the balance at the end of each day, including what is on hold."""
    found = await repository.list_balances(session, access.organization.id, *days)
    items = [DayBalance(day=day, balance_microusd=microusd) for day, microusd in found]
    return BalanceHistory(first=days[0], last=days[1], items=items)


@router.get("/organizations/{organization_id}/billing/usage", summary="Get usage")
async def get_usage(access: Viewer, session: TheSession, days: TheDays) -> UsageList:
    """Returns the hours bought in your projects, by day, project, container and instance type."""
    items = await _usage(session, access, days)
    total = sum(one.amount_microusd for one in items)
    return UsageList(first=days[0], last=days[1], total_microusd=total, items=items)


@router.get(
    "/organizations/{organization_id}/billing/usage/export",
    summary="Export usage",
    response_class=StreamingResponse,
    responses=CSV_ANSWER,
)
async def export_usage(
    access: Viewer, session: TheSession, settings: TheSettings, streams: TheStreams, days: TheDays
) -> StreamingResponse:
    """Returns the hours that were bought as CSV."""
    items = await _usage(session, access, days)

    async def lines() -> AsyncIterator[str]:
        yield csv_line(_USAGE_COLUMNS)
        for item in items:
            yield csv_line(["" if value is None else str(value) for value in item.model_dump().values()])

    stream = streams.take(StreamKind.DOWNLOADS, access.actor.shares_as, settings.downloads_per_person)
    return csv_answer(f"usage-{access.organization.id}-{days[0]}-{days[1]}.csv", lines(), stream)


async def _usage(session: AsyncSession, access: OrganizationAccess, days: Days) -> list[UsageItem]:
    organization_id = access.organization.id
    seen = None
    if access.role is not Role.ADMIN:
        seen = await joined_project_ids(session, organization_id, access.actor.user_id)
    found = await repository.list_usage(session, organization_id, *days, seen, MOST_USAGE_ITEMS + 1)
    if len(found) > MOST_USAGE_ITEMS:
        fields = (FieldError("from", "must be later"),)
        message = f"That is more than {MOST_USAGE_ITEMS} lines. Ask for fewer days."
        raise InvalidInputError(message, code="too_many_items", fields=fields)
    return [UsageItem.model_validate(one, from_attributes=True) for one in found]


def _entry_cells(entry: LedgerEntry) -> tuple[str, ...]:
    return entry.at.isoformat(), entry.id, entry.kind, str(entry.amount_microusd), entry.description


def _position(entry: LedgerEntry) -> Position:
    return Position(entry.at, entry.id)


def _entry(entry: Entry) -> LedgerEntry:
    row = entry.transaction
    return LedgerEntry(
        id=row.id,
        at=row.at,
        kind=row.kind,
        amount_microusd=entry.amount_microusd,
        description=describe(row.kind, row.details),
        details=row.details,
        project_name=entry.project_name,
        container_name=entry.container_name,
        balance_after_microusd=entry.balance_after_microusd,
    )

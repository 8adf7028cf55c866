"""An organization in numbers, for the operator: what it has, what it spends, how long that lasts."""

from datetime import date, datetime, timedelta

from fastapi import APIRouter
from pydantic import BaseModel

from moorage.billing.views.outlook import outlook
from moorage.billing.views.repository import paid_in, spend_by_day
from moorage.billing.views.words import forecast_sentence
from moorage.kit.web import TheSession, TheSettings
from moorage.organizations.operator.access import OrganizationOfAnybody

router = APIRouter(tags=["operator"])

DAYS_SHOWN = 30


class DaySpend(BaseModel):
    day: date
    amount_microusd: int


class OrganizationDetail(BaseModel):
    id: str
    name: str
    created_at: datetime
    suspended_at: datetime | None
    deleted_at: datetime | None
    """Since then it has no members. What it had stays on record."""
    balance_microusd: int
    """What is available and what is held, together."""
    held_microusd: int
    burn_per_hour_microusd: int
    """What runs now costs so much an hour."""
    runs_out_at: datetime | None
    """When the credit ends if nothing changes; null while nothing runs."""
    forecast: str
    """The same in a sentence."""
    paid_in_microusd: int
    """By card and bank transfer, since it exists."""
    spent_this_month_microusd: int
    """Hours bought in this month, in UTC."""
    spend: list[DaySpend]
    """Hours bought on each of the last 30 days, in UTC; days without any are left out."""


@router.get("/operator/organizations/{organization_id}", summary="Get an organization in numbers")
async def get_organization_detail(
    organization: OrganizationOfAnybody, session: TheSession, settings: TheSettings
) -> OrganizationDetail:
    """Returns what an organization has, what it spends and how long that lasts, for the operator."""
    found = await outlook(session, organization.id, timedelta(seconds=settings.billing_hour_s))
    today = found.now.date()
    first = min(today - timedelta(days=DAYS_SHOWN - 1), today.replace(day=1))
    spend = await spend_by_day(session, organization.id, first, today)
    return OrganizationDetail(
        id=organization.id,
        name=organization.name,
        created_at=organization.created_at,
        suspended_at=organization.suspended_at,
        deleted_at=organization.deleted_at,
        balance_microusd=found.balance.total_microusd,
        held_microusd=found.balance.held_microusd,
        burn_per_hour_microusd=found.forecast.burn_now_microusd,
        runs_out_at=found.forecast.runs_out_at,
        forecast=forecast_sentence(found.forecast),
        paid_in_microusd=await paid_in(session, organization.id),
        spent_this_month_microusd=sum(amount for day, amount in spend if day >= today.replace(day=1)),
        spend=[
            DaySpend(day=day, amount_microusd=amount)
            for day, amount in spend
            if day > today - timedelta(days=DAYS_SHOWN)
        ],
    )

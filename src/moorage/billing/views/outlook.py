"""What an organization has, and how long it lasts."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.views import repository
from moorage.ledger.repository import Balance, balance_of
from moorage.ledger.rules import Forecast, forecast


@dataclass(frozen=True)
class Outlook:
    balance: Balance
    forecast: Forecast
    now: datetime


async def outlook(session: AsyncSession, organization_id: str, hour: timedelta) -> Outlook:
    balance = await balance_of(session, organization_id)
    burning, now = await repository.burning_slots(session, organization_id)
    most = await repository.burn_maximum(session, organization_id)
    return Outlook(balance, forecast(balance.available_microusd, burning, most, now, hour), now)

"""Telling an organization's admins, by mail and by webhook, each thing once."""

from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.billing.alerts import repository
from moorage.billing.alerts.rules import due_alert, due_warning
from moorage.billing.alerts.words import limit_mail, low_credit_mail
from moorage.billing.auto_top_ups.service import will_charge
from moorage.billing.mails import tell_admins
from moorage.billing.views.outlook import outlook
from moorage.containers.activity import SYSTEM
from moorage.kit.crypto import Keyring
from moorage.kit.settings import Settings
from moorage.ledger.spending import Limit
from moorage.ledger.spending_repository import list_limits
from moorage.organizations.audit.repository import record_audit


async def tell_of_limits(
    session: AsyncSession, keyring: Keyring, settings: Settings, organization_id: str
) -> None:
    told = await repository.told_percents(session, organization_id)
    for limit in await list_limits(session, organization_id):
        month, percent = told[limit.scope_id]
        due = due_alert(limit, percent if month == limit.month else 0)
        if due is not None:
            await tell_of_limit(session, keyring, settings, organization_id, limit, due)


async def tell_of_limit(
    session: AsyncSession,
    keyring: Keyring,
    settings: Settings,
    organization_id: str,
    limit: Limit,
    percent: int,
) -> None:
    if not await repository.mark_told(session, limit, percent):
        return
    record_audit(
        session,
        organization_id,
        actor=SYSTEM,
        action="billing.spending_alert",
        target=limit.scope_id,
        percent=percent,
        spent_microusd=limit.spent.bought_microusd,
        limit_microusd=limit.limit_microusd,
    )
    name = await repository.scope_name(session, limit.scope_id)
    subject, text = limit_mail(name, limit, percent, _billing_url(settings))
    await tell_admins(session, keyring, organization_id, subject=subject, text=text)


async def tell_of_low_credit(
    session: AsyncSession, keyring: Keyring, settings: Settings, organization_id: str
) -> None:
    if await will_charge(session, organization_id):
        return  # Should the card be refused, that is told, and so is this.
    # Locked, so that money which comes in meanwhile is either seen or makes the next warning possible.
    told_h = await repository.lock_told_hours(session, organization_id)
    found = await outlook(session, organization_id, timedelta(seconds=settings.billing_hour_s))
    hours = due_warning(found.forecast.runs_out_at, found.now, told_h)
    if hours is None:
        return
    runs_out_at = found.forecast.runs_out_at
    assert runs_out_at is not None, "without an end there is no warning"
    await repository.set_told_hours(session, organization_id, hours)
    record_audit(
        session,
        organization_id,
        actor=SYSTEM,
        action="billing.low_credit",
        target=organization_id,
        hours=hours,
        available_microusd=found.balance.available_microusd,
        runs_out_at=runs_out_at.isoformat(),
    )
    name = await repository.scope_name(session, organization_id)
    subject, text = low_credit_mail(
        name, hours, found.balance.available_microusd, runs_out_at, _billing_url(settings)
    )
    await tell_admins(session, keyring, organization_id, subject=subject, text=text)


def _billing_url(settings: Settings) -> str:
    return f"{settings.api_base_url}/billing"

"""The funding gate: a deployment is admitted when an hour of each of its replicas is held or paid for, and while the
organization has not started too much today that came to nothing."""

import math
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow
from moorage.containers.prices import prices_of
from moorage.containers.repository import occupied_slots
from moorage.containers.spec import ContainerSettings
from moorage.containers.start_limit import allowance_spent
from moorage.containers.suspension import refuse_suspended
from moorage.containers.unpaid_starts_repository import unpaid_starts_microusd
from moorage.kit.errors import InsufficientCreditError, TooManyRequestsError
from moorage.kit.settings import Settings
from moorage.ledger.hours_repository import NO_HOURS, Buyer, hold_at_admission, read_hours
from moorage.ledger.rules import Occupied, cover
from moorage.organizations.models import ProjectRow


async def refuse_spent_allowance(
    session: AsyncSession, organization_id: str, settings: Settings, now: datetime
) -> None:
    """For a start that nobody has paid for."""
    used_microusd = await unpaid_starts_microusd(session, organization_id)
    spent = allowance_spent(used_microusd, settings.unpaid_starts_microusd_per_day, now)
    if spent is not None:
        wait_s = math.ceil((spent.until - now).total_seconds())
        raise TooManyRequestsError(spent.verdict.message, code=spent.verdict.reason, retry_after_s=wait_s)


async def is_paid(session: AsyncSession, row: ContainerRow) -> bool:
    """Whether what it starts with has paid hours already."""
    found = await read_hours(session, row.id)
    paid = [hour for hour in found.hours if not hour.is_held]
    slots = range(ContainerSettings.from_json(row.settings).min_replicas)
    return not cover(slots, Occupied(), paid, row.instance_type, found.now).hold


async def hold_hours(session: AsyncSession, row: ContainerRow, *, is_new: bool = False) -> None:
    """From now until the hours are bought or the deployment ends. Raises when the credit does not cover it. The row is
    locked, or new."""
    # Whoever deploys has read it already, so this asks nobody.
    project = await session.get(ProjectRow, row.project_id)
    assert project is not None, "a foreign key says so"
    settings = ContainerSettings.from_json(row.settings)
    prices = await prices_of(session, settings)
    buyer = Buyer(project.organization_id, project.id, row.id, row.instance_type, prices.most_microusd)
    occupied, found = Occupied(), NO_HOURS
    if not is_new:
        occupied, found = await occupied_slots(session, row), await read_hours(session, row.id)
    slots = range(settings.min_replicas)
    try:
        await hold_at_admission(session, buyer, slots, occupied, found)
    except InsufficientCreditError:
        # Nothing is held for an organization that was suspended a moment ago; then that is what to say.
        await refuse_suspended(session, row.project_id)
        raise

"""The funding gate: a deployment is admitted when an hour of each of its replicas is held or paid for."""

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import find_instance_type
from moorage.containers.models import ContainerRow
from moorage.containers.repository import occupied_slots
from moorage.containers.spec import ContainerSettings
from moorage.containers.suspension import refuse_suspended
from moorage.kit.errors import InsufficientCreditError
from moorage.ledger.hours_repository import NO_HOURS, Buyer, hold_at_admission, read_hours
from moorage.ledger.rules import Occupied
from moorage.organizations.models import ProjectRow


async def hold_hours(session: AsyncSession, row: ContainerRow, *, is_new: bool = False) -> None:
    """From now until the hours are bought or the deployment ends. Raises when the credit does not cover it. The row is
    locked, or new."""
    # Whoever deploys has read it already, so this asks nobody.
    project = await session.get(ProjectRow, row.project_id)
    instance_type = await find_instance_type(session, row.instance_type)
    assert project is not None, "a foreign key says so"
    assert instance_type is not None, "a foreign key says so"
    buyer = Buyer(
        project.organization_id,
        project.id,
        row.id,
        instance_type.name,
        instance_type.price_per_hour_microusd,
    )
    occupied, found = Occupied(), NO_HOURS
    if not is_new:
        occupied, found = await occupied_slots(session, row), await read_hours(session, row.id)
    slots = range(ContainerSettings.from_json(row.settings).min_replicas)
    try:
        await hold_at_admission(session, buyer, slots, occupied, found)
    except InsufficientCreditError:
        # Nothing is held for an organization that was suspended a moment ago; then that is what to say.
        await refuse_suspended(session, row.project_id)
        raise

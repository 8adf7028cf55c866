"""The funding gate: a deployment is admitted when an hour of each of its replicas is held or paid for."""

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import find_instance_type
from moorage.containers.models import ContainerRow
from moorage.containers.spec import ContainerSettings
from moorage.kit.errors import ForbiddenError, InsufficientCreditError
from moorage.ledger.hours_repository import Buyer, hold_at_admission, list_hours
from moorage.organizations.repository import find_organization, find_project


async def hold_hours(session: AsyncSession, row: ContainerRow, *, is_new: bool = False) -> None:
    """From now until the hours are bought or the deployment ends. Raises when the credit does not cover it."""
    project = await find_project(session, row.project_id)
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
    hours = () if is_new else await list_hours(session, row.id)
    slots = range(ContainerSettings.from_json(row.settings).min_replicas)
    try:
        await hold_at_admission(session, buyer, slots, hours)
    except InsufficientCreditError:
        await _refuse_suspended(session, project.organization_id)
        raise
    if not is_new:
        # Where nothing had to be held, nobody has looked yet.
        await _refuse_suspended(session, project.organization_id)


async def _refuse_suspended(session: AsyncSession, organization_id: str) -> None:
    organization = await find_organization(session, organization_id)
    assert organization is not None, "a foreign key says so"
    if organization.suspended_at is not None:
        raise ForbiddenError(
            "The organization is suspended, so nothing can start. Ask the operator of this installation.",
            code="suspended",
        )

"""An organization that must not use anything until the operator says so again."""

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow
from moorage.containers.service import stop_because
from moorage.containers.states import DesiredState, Reason
from moorage.organizations.models import OrganizationRow, ProjectRow


async def suspend_organization(session: AsyncSession, organization_id: str) -> None:
    """What runs drains and stops; nothing starts. Repeating it changes nothing."""
    newly = (OrganizationRow.id == organization_id) & OrganizationRow.suspended_at.is_(None)
    await session.execute(update(OrganizationRow).where(newly).values(suspended_at=func.now()))
    running = (
        select(ContainerRow)
        .join(ProjectRow, ProjectRow.id == ContainerRow.project_id)
        .where(
            ProjectRow.organization_id == organization_id,
            ContainerRow.desired_state == DesiredState.RUNNING,
            ContainerRow.deleted_at.is_(None),
        )
        .order_by(ContainerRow.id)
        .with_for_update(of=ContainerRow)
    )
    for row in (await session.execute(running)).scalars():
        await stop_because(session, row, Reason.SUSPENDED)

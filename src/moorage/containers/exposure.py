"""Who said that owners of community machines may see what runs there, and when."""

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.models import ContainerRow
from moorage.containers.spec import ContainerSettings
from moorage.identity.actor import Actor
from moorage.organizations.audit.repository import record_audit


def record_exposure(
    session: AsyncSession,
    organization_id: str,
    actor: Actor,
    row: ContainerRow,
    before: ContainerSettings | None,
    after: ContainerSettings,
) -> None:
    """Where it is news."""
    said_before = before is not None and before.accept_exposure
    if after.accept_exposure and not said_before:
        record_audit(
            session,
            organization_id,
            actor=actor.id,
            action="container.accept_exposure",
            target=row.id,
            name=row.name,
            project_id=row.project_id,
            infrastructure=after.infrastructure,
        )

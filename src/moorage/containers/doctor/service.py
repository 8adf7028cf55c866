"""Asks for a look at a container's network. The API only asks; the doctor reconciler looks."""

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.activity import record_action
from moorage.containers.channels import DOCTOR
from moorage.containers.doctor import repository
from moorage.containers.doctor.models import NetworkDiagnosisRow
from moorage.containers.doctor.words import NO_REPLICA
from moorage.containers.models import ContainerRow
from moorage.identity.actor import Actor
from moorage.kit.database import notify
from moorage.kit.errors import ConflictError


async def ask(
    session: AsyncSession, actor: Actor, container: ContainerRow
) -> tuple[NetworkDiagnosisRow, bool]:
    """The diagnosis that is under way, and whether this made it so."""
    if await repository.running_replica(session, container.id) is None:
        raise ConflictError(NO_REPLICA, code="no_replica_running")
    is_new = await repository.ask(session, container.id, actor.id)
    if is_new:
        record_action(session, container, actor.id, "container.doctor")
        await notify(session, DOCTOR)
    row = await repository.find(session, container.id)
    assert row is not None, "it was just asked for"
    return row, is_new

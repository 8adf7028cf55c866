"""What a machine's row says, written where replicas are placed by: whether it takes any, and who lends it."""

from collections.abc import Collection

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import Intake, intake_of, set_intake, set_lending
from moorage.engines.base import NodeCapacity
from moorage.engines.remote.proven import UNPROVEN
from moorage.machines.models import MachineRow
from moorage.machines.repository import hurry_proof
from moorage.machines.states import WITH_ENGINE, MachineState

_INTAKES = {
    MachineState.VERIFYING: Intake.CORDONED,
    MachineState.PAUSED: Intake.CORDONED,
    MachineState.DRAINING: Intake.DRAINING,
}


async def note_intakes(session: AsyncSession, nodes: Collection[NodeCapacity]) -> None:
    """Of those that joined. Of a lost one too: what was said about it meanwhile holds from its first answer on."""
    row = MachineRow
    said = select(
        row.id, row.state, row.state_before_loss, row.owner_organization_id, row.standing, row.empty_by
    ).where(row.id.in_({node.engine for node in nodes}), row.state.in_(WITH_ENGINE))
    machines = {its.id: its for its in await session.execute(said)}
    for node in sorted(nodes, key=lambda node: node.key):  # docs/locking.md
        its = machines.get(node.engine)
        if its is None:
            continue
        intake = _INTAKES.get(MachineState(its.state_before_loss or its.state), Intake.OPEN)
        if intake is not intake_of(node):
            await set_intake(session, node.engine, node.name, intake)
        if its.owner_organization_id is None:
            continue
        await set_lending(
            session,
            node.engine,
            its.owner_organization_id,
            on_probation=its.standing == MachineState.PROBATION,
            empty_by=its.empty_by,
        )
        if node.closed_because == UNPROVEN:
            await hurry_proof(session, its.id)

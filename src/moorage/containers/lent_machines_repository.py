"""What tenants see of the machines of others that their replicas run on: the GPU, how far it is trusted, how reliable it is."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.models import NodeRow
from moorage.containers.models import ReplicaRow
from moorage.containers.schemas import LentMachine
from moorage.containers.states import LIVE
from moorage.kit.database import database_now
from moorage.machines.models import MachineRow
from moorage.machines.ownership import is_owned
from moorage.machines.reliability import reliability, tier
from moorage.machines.repository import presences


async def lent_machines(session: AsyncSession, replicas: Sequence[ReplicaRow]) -> dict[str, LentMachine]:
    """By replica, of the live ones alone: what became of a machine since is no business of those who have left it."""
    live = [row for row in replicas if row.state in LIVE]
    gpus = await _gpus(session, {row.engine for row in live})
    if not gpus:
        return {}
    seen = await presences(session, gpus, await database_now(session))
    return {
        row.id: LentMachine(
            gpus=[gpus[row.engine][one] for one in row.gpu_device_ids if one in gpus[row.engine]],
            tier=tier(seen[row.engine]),
            reliability=round(reliability(seen[row.engine]), 4),
        )
        for row in live
        if row.engine in gpus
    }


async def _gpus(session: AsyncSession, engines: set[str]) -> dict[str, dict[str, str]]:
    """By owned machine: its models by device."""
    query = (
        select(MachineRow.id, NodeRow.gpus)
        .join(NodeRow, is_owned(NodeRow.engine))
        .where(NodeRow.engine.in_(engines))
    )
    found: dict[str, dict[str, str]] = {}
    for machine_id, gpus in await session.execute(query):
        found.setdefault(machine_id, {}).update({one["device_id"]: one["model"] for one in gpus})
    return found

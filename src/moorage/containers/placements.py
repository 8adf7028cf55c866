"""What the rows say of replicas that a machine speaks of."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import select

from moorage.containers.models import ReplicaRow
from moorage.engines.remote.machine import PlacedReplica
from moorage.kit.database import Database
from moorage.kit.ids import ContainerId, ReplicaId


@dataclass(frozen=True)
class RowPlacements:
    """For the machine of one engine."""

    database: Database
    engine: str

    async def placed(self, replica_ids: Collection[ReplicaId]) -> Mapping[ReplicaId, PlacedReplica]:
        if not replica_ids:
            return {}
        query = select(ReplicaRow.id, ReplicaRow.container_id, ReplicaRow.engine)
        async with self.database.reading() as session:
            rows = await session.execute(query.where(ReplicaRow.id.in_(replica_ids)))
        return {
            ReplicaId(row.id): PlacedReplica(ContainerId(row.container_id), is_here=row.engine == self.engine)
            for row in rows
        }

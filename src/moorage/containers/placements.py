"""What the rows say of replicas that a machine speaks of."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlalchemy import String, any_, literal, select
from sqlalchemy.dialects.postgresql import ARRAY

from moorage.containers.models import ReplicaRow
from moorage.containers.states import ReplicaState
from moorage.engines.remote.machine import PlacedReplica
from moorage.kit.database import Database
from moorage.kit.ids import ContainerId, ReplicaId


@dataclass(frozen=True)
class RowPlacements:
    """For the machine of one engine."""

    database: Database
    engine: str

    async def placed(self, replica_ids: Collection[ReplicaId]) -> Mapping[ReplicaId, PlacedReplica]:
        """Without those that are removed elsewhere, which are nobody's: a machine that was removed and joined again is
        another one by then, and what it still runs is to end."""
        if not replica_ids:
            return {}
        its = ReplicaRow.id == any_(literal(sorted(replica_ids), ARRAY(String)))
        somebodys = (ReplicaRow.engine == self.engine) | (ReplicaRow.state != ReplicaState.REMOVED)
        query = select(ReplicaRow.id, ReplicaRow.container_id, ReplicaRow.engine, ReplicaRow.created_at)
        async with self.database.reading() as session:
            rows = await session.execute(query.where(its, somebodys))
        return {
            ReplicaId(row.id): PlacedReplica(
                ContainerId(row.container_id), row.engine == self.engine, row.created_at
            )
            for row in rows
        }

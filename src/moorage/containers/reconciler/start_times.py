"""Writes down what a start took, when one comes to its end: the next one is told from it."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.reconciler.cache_watch import CacheWatch
from moorage.containers.reconciler.funding import Funded
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.spec import ContainerSettings
from moorage.containers.start_times.measuring import of_start
from moorage.containers.start_times.repository import record
from moorage.containers.states import ReplicaState
from moorage.containers.views import Plan
from moorage.kit.clock import Clock


@dataclass(frozen=True)
class StartTimes:
    clock: Clock
    cache_watch: CacheWatch

    async def record(self, session: AsyncSession, loaded: Loaded, plan: Plan, funded: Funded) -> None:
        """Of those with a cache: how it grew says what of the time was the download."""
        settings = ContainerSettings.from_json(loaded.container.settings)
        if settings.cache_gib is None:
            return
        rows = {row.id: row for row in loaded.replicas}
        for move in plan.transitions:
            if move.to is not ReplicaState.READY or move.replica_id in funded.kept_back:
                continue
            row = rows[move.replica_id]
            observed_at = move.observed.started_at if move.observed is not None else None
            started_at = row.started_at or observed_at
            # A canary runs another image than the row's settings say.
            if started_at is None or row.version != loaded.container.version:
                continue
            filled = self.cache_watch.filled(row.engine, row.id)
            # The clock that said so may be ahead of ours.
            running_s = max((loaded.now - started_at).total_seconds(), 0.0)
            await record(
                session,
                of_start(filled, running_s, self.clock.monotonic()),
                organization_id=loaded.organization_id,
                engine=row.engine,
                instance_type=loaded.type_of(row).name,
                image=settings.image,
            )

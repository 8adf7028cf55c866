"""Sees that a GPU broke under a replica: within seconds where the replica lives on, at once where it died of it.

It decides about nothing but who has to go: the container's next pass writes that down, ends the replica and starts another
where there is a GPU that works. The machine's row is written first, so that nothing is placed on the broken one again. What
it found is lost with the process, and found again by the next look.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from moorage.containers.models import ReplicaRow
from moorage.containers.reconciler import repository
from moorage.containers.reconciler.repository import GpuUser
from moorage.containers.states import LIVE, Reason
from moorage.containers.verdict import Verdict
from moorage.engines.base import Engine, ObservedReplica, ReplicaPhase
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

EVERY_S = 2.0


@dataclass
class GpuWatch:
    database: Database
    engine: Engine
    clock: Clock
    ask: Callable[[str], None]
    """For a pass over a container."""
    refresh_nodes: Callable[[Lease], Awaitable[None]]
    evicted: Mapping[str, Verdict] = field(init=False, default_factory=dict)
    """Replicas that have to go, for as long as they hold their GPUs."""

    async def run(self, lease: Lease) -> None:
        while True:
            lease.check()
            try:
                await self.look(lease)
            except EngineError as exc:
                log.warning("gpus_not_seen", error=str(exc))
            await self.clock.sleep(EVERY_S)

    async def look(self, lease: Lease) -> None:
        async with self.database.reading() as session:
            users = await repository.list_gpu_users(session)
        found = await self._broken(users)
        new = found.keys() - self.evicted.keys()
        self.evicted = {replica_id: self.evicted.get(replica_id, why) for replica_id, why in found.items()}
        if not new:
            return
        await self.refresh_nodes(lease)
        for user in users:
            if user.replica_id in new:
                log.error("gpu_lost", replica_id=user.replica_id, message=found[user.replica_id].message)
                self.ask(user.container_id)

    async def judge(
        self, rows: Sequence[ReplicaRow], observed: Mapping[str, ObservedReplica], lease: Lease
    ) -> Mapping[str, Verdict]:
        """Of replicas that ended by themselves, those that did because their GPU broke. A process that uses one dies at
        once, and its end is known before the next look. Where nobody answers for the GPUs, what it said itself counts."""
        ended = [
            GpuUser(row.id, row.container_id, row.node, tuple(row.gpu_device_ids))
            for row in rows
            if row.gpu_device_ids
            and row.state in LIVE
            and row.id in observed
            and observed[row.id].phase is ReplicaPhase.EXITED
        ]
        if not ended:
            return {}
        try:
            found = await self._broken(ended)
        except EngineError as exc:
            log.warning("gpus_not_seen", error=str(exc))
            return {}
        if found:
            log.error("gpu_lost", replica_ids=sorted(found), message=next(iter(found.values())).message)
            await self.refresh_nodes(lease)
        return found

    async def _broken(self, users: Sequence[GpuUser]) -> dict[str, Verdict]:
        problems = await self.engine.gpu_problems({one for user in users for one in user.device_ids})
        return {
            user.replica_id: _lost(user.node, problems[broken[0]])
            for user in users
            if (broken := [one for one in user.device_ids if one in problems])
        }


def _lost(node: str, problem: str) -> Verdict:
    return Verdict(
        Reason.GPU_LOST,
        f"Its GPU on {node} broke: {problem}. It is replaced where another is free, and the time until then is not billed.",
    )

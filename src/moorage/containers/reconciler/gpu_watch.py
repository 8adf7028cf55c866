"""Sees within seconds that a GPU broke under a replica.

It decides about nothing but who has to go: the container's next pass writes that down, ends the replica and starts another
where there is a GPU that works. The machine's row is written first, so that nothing is placed on the broken one again. What
it found is lost with the process, and found again by the next look.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import structlog

from moorage.containers.reconciler import repository
from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict
from moorage.engines.base import Engine
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
        problems = await self.engine.gpu_problems({one for user in users for one in user.device_ids})
        found = {
            user.replica_id: _lost(
                user.node, next(problems[one] for one in user.device_ids if one in problems)
            )
            for user in users
            if any(one in problems for one in user.device_ids)
        }
        new = found.keys() - self.evicted.keys()
        self.evicted = {replica_id: self.evicted.get(replica_id, why) for replica_id, why in found.items()}
        if not new:
            return
        await self.refresh_nodes(lease)
        for user in users:
            if user.replica_id in new:
                log.error("gpu_lost", replica_id=user.replica_id, message=found[user.replica_id].message)
                self.ask(user.container_id)


def _lost(node: str, problem: str) -> Verdict:
    return Verdict(
        Reason.GPU_LOST,
        f"Its GPU on {node} broke: {problem}. It is replaced where another is free, and the time until then is not billed.",
    )

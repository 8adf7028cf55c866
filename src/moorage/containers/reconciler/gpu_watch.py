"""Sees that a GPU broke under a replica: within seconds where the replica lives on, at once where it died of it.

It decides about nothing but who has to go: the container's next pass writes that down, ends the replica and starts another
where there is a GPU that works. The machine's row is written first, so that nothing is placed on the broken one again. A
machine that hangs is described late or never: until then this process keeps in mind what broke. What it found is lost with the
process, and found again by the next look.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from moorage.containers.models import ReplicaRow
from moorage.containers.reconciler import repository
from moorage.containers.reconciler.repository import GpuUser
from moorage.containers.states import LIVE, Reason
from moorage.containers.verdict import Verdict
from moorage.engines.base import Engine, GpuDevice, NodeCapacity, ObservedReplica, ReplicaPhase
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

EVERY_S = 2.0
_DESCRIBED_WITHIN_S = 2.0


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
    _unwritten: dict[str, str] = field(init=False, default_factory=dict)
    """By device: what broke since the machines were last described."""

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
        problems = await self._problems_of(users)
        broken = [user for user in users if not problems.keys().isdisjoint(user.device_ids)]
        new = [user for user in broken if user.replica_id not in self.evicted]
        self.evicted = {
            user.replica_id: self.evicted.get(user.replica_id) or _lost(user, problems) for user in broken
        }
        await self._tell(new, problems, lease)
        for user in new:
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
            problems = await self._problems_of(ended)
        except EngineError as exc:
            log.warning("gpus_not_seen", error=str(exc))
            return {}
        broken = [user for user in ended if not problems.keys().isdisjoint(user.device_ids)]
        await self._tell(broken, problems, lease)
        return {user.replica_id: _lost(user, problems) for user in broken}

    def with_broken(self, nodes: Sequence[NodeCapacity]) -> list[NodeCapacity]:
        """The machines, with what their rows do not tell yet."""
        return [replace(node, gpus=tuple(self._as_known(gpu) for gpu in node.gpus)) for node in nodes]

    def _as_known(self, gpu: GpuDevice) -> GpuDevice:
        problem = self._unwritten.get(gpu.device_id)
        return gpu if problem is None else replace(gpu, unusable_because=problem)

    async def _problems_of(self, users: Sequence[GpuUser]) -> Mapping[str, str]:
        return await self.engine.gpu_problems({one for user in users for one in user.device_ids})

    async def _tell(self, lost: Sequence[GpuUser], problems: Mapping[str, str], lease: Lease) -> None:
        """Into the log and the machines' rows, now or with a later look."""
        for user in lost:
            log.error("gpu_lost", replica_id=user.replica_id, message=_lost(user, problems).message)
            self._unwritten |= {one: problems[one] for one in user.device_ids if one in problems}
        if not self._unwritten:
            return
        try:
            async with asyncio.timeout(_DESCRIBED_WITHIN_S):
                await self.refresh_nodes(lease)
        except (TimeoutError, EngineError) as exc:
            log.warning("machine_not_described", error=repr(exc))
        else:
            self._unwritten = {}


def _lost(user: GpuUser, problems: Mapping[str, str]) -> Verdict:
    problem = next(problems[one] for one in user.device_ids if one in problems)
    return Verdict(
        Reason.GPU_LOST,
        f"Its GPU on {user.node} broke: {problem}. It is replaced where another is free, and the time until then is not "
        "billed.",
    )

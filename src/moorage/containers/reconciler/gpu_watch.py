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
from moorage.containers.reconciler.pulse import Pulse
from moorage.containers.reconciler.repository import GpuUser
from moorage.containers.states import LIVE, Reason
from moorage.containers.verdict import Verdict
from moorage.engines.base import GpuDevice, NodeCapacity, ObservedReplica, ReplicaPhase
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.kit.together import Together
from moorage.reconcile.lease import Lease
from moorage.reconcile.watches import Pauses

log = structlog.get_logger()

EVERY_S = 2.0
_NOTHING_THERE_S = 60.0
"""Where nobody has a GPU, and where there is none."""
_DESCRIBED_WITHIN_S = 2.0


@dataclass
class GpuWatch:
    database: Database
    engines: Engines
    clock: Clock
    ask: Callable[[str], None]
    """For a pass over a container."""
    pulse: Pulse
    refresh_nodes: Callable[[str, Lease], Awaitable[None]]
    """Of an engine."""
    _evicted: dict[str, Mapping[str, Verdict]] = field(init=False, default_factory=dict)
    """By engine: replicas that have to go, for as long as they hold their GPUs."""
    _unwritten: dict[str, dict[str, str]] = field(init=False, default_factory=dict)
    """By engine and device: what broke since its machines were last described."""
    _without: set[str] = field(init=False, default_factory=set)
    """Engines that described machines without any GPU."""
    _unused: set[str] = field(init=False, default_factory=set)
    """Engines where nobody had one at the last look."""
    _users: Together[str, None, list[GpuUser]] = field(init=False)
    """By engine."""
    _pauses: Pauses = field(init=False)

    def __post_init__(self) -> None:
        self._pauses = Pauses(self.clock)
        self._users = Together(self._read_users, self.clock, self.engines.pause_s)

    async def _read_users(self, engines: Mapping[str, None]) -> Mapping[str, list[GpuUser]]:
        async with self.database.reading() as session:
            return await repository.list_gpu_users(session, engines)

    def why_evicted(self, engine: str, replica_id: str) -> Verdict | None:
        return self._evicted.get(engine, {}).get(replica_id)

    def described(self, engine: str, nodes: Sequence[NodeCapacity]) -> None:
        """What it says about its machines, before anything can be placed by that."""
        if any(node.gpus for node in nodes):
            self._without.discard(engine)
            self._pauses.cut_short(engine)
        else:
            self._without.add(engine)

    async def run(self, name: str, lease: Lease) -> None:
        """Of one engine."""
        self._unused.discard(name)  # Somebody else may have led meanwhile, and begun something.
        while True:
            lease.check()
            self._pauses.begin_round(name)
            await self.pulse.until_it_answers(name)
            try:
                await self.look(name, lease)
            except EngineError as exc:
                log.warning("gpus_not_seen", engine=name, error=str(exc))
            now_s = self.clock.monotonic()
            if name in self._without and name in self._unused:
                await self._pauses.rest(name, self.engines.turn_in_s(name, _NOTHING_THERE_S, now_s))
            else:
                await self.clock.sleep(self.engines.turn_in_s(name, EVERY_S, now_s))

    async def look(self, name: str, lease: Lease) -> None:
        users = await self._users.ask(name, None)
        (self._unused.discard if users else self._unused.add)(name)
        problems = await self._problems_of(name, users)
        broken = [user for user in users if not problems.keys().isdisjoint(user.device_ids)]
        before = self._evicted.get(name, {})
        new = [user for user in broken if user.replica_id not in before]
        # Whoever is known is not asked about again: so it is known only once it is written and asked about.
        await self._tell(name, new, problems, lease)
        self._evicted[name] = {
            user.replica_id: before.get(user.replica_id) or _lost(user, problems) for user in broken
        }
        for user in new:
            self.ask(user.container_id)

    async def judge(
        self, rows: Sequence[ReplicaRow], observed: Mapping[str, ObservedReplica], lease: Lease
    ) -> Mapping[str, Verdict]:
        """Of replicas that ended by themselves, those that did because their GPU broke. A process that uses one dies at
        once, and its end is known before the next look. Where nobody answers for the GPUs, what it said itself counts."""
        ended = [
            row
            for row in rows
            if row.gpu_device_ids
            and row.state in LIVE
            and row.id in observed
            and observed[row.id].phase is ReplicaPhase.EXITED
        ]
        found: dict[str, Verdict] = {}
        for name in sorted({row.engine for row in ended}):
            found |= await self._judge(name, [_user(row) for row in ended if row.engine == name], lease)
        return found

    async def _judge(self, name: str, ended: Sequence[GpuUser], lease: Lease) -> Mapping[str, Verdict]:
        try:
            problems = await self._problems_of(name, ended)
        except EngineError as exc:
            log.warning("gpus_not_seen", engine=name, error=str(exc))
            return {}
        broken = [user for user in ended if not problems.keys().isdisjoint(user.device_ids)]
        await self._tell(name, broken, problems, lease)
        return {user.replica_id: _lost(user, problems) for user in broken}

    def with_broken(self, nodes: Sequence[NodeCapacity]) -> list[NodeCapacity]:
        """The machines, with what their rows do not tell yet."""
        return [
            replace(node, gpus=tuple(self._as_known(node.engine, gpu) for gpu in node.gpus))
            if self._unwritten.get(node.engine)
            else node
            for node in nodes
        ]

    def _as_known(self, name: str, gpu: GpuDevice) -> GpuDevice:
        problem = self._unwritten.get(name, {}).get(gpu.device_id)
        return gpu if problem is None else replace(gpu, unusable_because=problem)

    async def _problems_of(self, name: str, users: Sequence[GpuUser]) -> Mapping[str, str]:
        devices = {one for user in users for one in user.device_ids}
        return await self.engines.of(name).gpu_problems(devices)

    async def _tell(
        self, name: str, lost: Sequence[GpuUser], problems: Mapping[str, str], lease: Lease
    ) -> None:
        """Into the log and the machines' rows, now or with a later look."""
        unwritten = self._unwritten.setdefault(name, {})
        for user in lost:
            log.error("gpu_lost", replica_id=user.replica_id, message=_lost(user, problems).message)
            unwritten |= {one: problems[one] for one in user.device_ids if one in problems}
        if not unwritten:
            return
        try:
            async with asyncio.timeout(_DESCRIBED_WITHIN_S):
                await self.refresh_nodes(name, lease)
        except (TimeoutError, EngineError) as exc:
            log.warning("machine_not_described", engine=name, error=repr(exc))
        else:
            unwritten.clear()


def _user(row: ReplicaRow) -> GpuUser:
    return GpuUser(row.id, row.container_id, row.node, tuple(row.gpu_device_ids))


def _lost(user: GpuUser, problems: Mapping[str, str]) -> Verdict:
    problem = next(problems[one] for one in user.device_ids if one in problems)
    return Verdict(
        Reason.GPU_LOST,
        f"Its GPU on {user.node} broke: {problem}. The replica moves to another free GPU, and the time until "
        "then is not billed.",
    )

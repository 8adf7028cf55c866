"""All workers of one HAProxy: the current one, and those that a reload left to finish their requests.

After a reload the new worker shows nothing in flight while the old one still serves. Whoever asks whether a
replica or a slot is empty has to ask all of them.

An old worker cannot be given new servers, nor have its servers drained or stopped: HAProxy refuses both while it
stops. And it can still take requests: on a connection whose answer had begun before the reload, HAProxy accepts one
more after it, as long as the connection may idle. Hence three rules here. Changes of keys go to old workers too. A
draining replica is left alone there until nothing is in flight for it and no client is left that could ask. Before a
replica counts as gone its container's route is cut in the old worker, so that nothing can reach its address, which
may soon be somebody else's.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from moorage.gateway.commands import KEY_NOT_FOUND, set_map
from moorage.gateway.config import GatewayConfig
from moorage.gateway.endpoint_rules import ROUTES_MAP
from moorage.gateway.haproxy import Worker, Workers
from moorage.gateway.layout import ServerKey
from moorage.gateway.map_values import NO_SLOT, owner_of, slot_of
from moorage.gateway.process import HaproxyProcess
from moorage.gateway.runtime_socket import HaproxyError
from moorage.gateway.stats import Load
from moorage.kit.clock import Clock
from moorage.kit.ids import ReplicaId

# An old worker that ends is listed by the master a moment longer than it answers.
_ENDING_S = 1.0


@dataclass(frozen=True)
class TotalLoad:
    current: Mapping[ServerKey, int] = field(default_factory=dict)
    """In flight in the current worker."""
    in_flight: Mapping[ReplicaId, int] = field(default_factory=dict)
    """Over all workers."""


@dataclass(frozen=True)
class Leftovers:
    """What the old workers hold of replicas that are to go."""

    reachable: frozenset[ReplicaId] = frozenset()
    """Still in flight there, or waiting, or able to get a request."""
    cut_off: frozenset[ReplicaId] = frozenset()
    commands: int = 0


class AllWorkers:
    def __init__(self, config: GatewayConfig, process: HaproxyProcess, clock: Clock) -> None:
        self._routes_map = config.map_path(ROUTES_MAP)
        self._process = process
        self._clock = clock
        self._cut: set[tuple[int, int]] = set()
        """Old worker and slot: no route leads there any more."""

    async def load(self, workers: Workers) -> TotalLoad:
        current = await self._process.worker.load()
        in_flight: Counter[ReplicaId] = Counter()
        for load in [current, *(await self._loads_of_old(workers)).values()]:
            for (_, replica_id), requests in load.servers.items():
                in_flight[replica_id] += requests
        return TotalLoad(current.servers, dict(in_flight))

    async def busy_slots(self, workers: Workers) -> set[int]:
        loads = [await self._process.worker.load(), *(await self._loads_of_old(workers)).values()]
        return {slot for load in loads for slot, requests in load.slots.items() if requests > 0}

    async def sum_of(self, count: Callable[[Worker], Awaitable[int]], workers: Workers) -> int:
        """Over all of them, the current one first."""
        total = await count(self._process.worker)
        for pid in workers.old_pids:
            async with self._unless_it_ends(pid):
                total += await count(self._old(pid))
        return total

    async def change_map(self, commands: Sequence[str], workers: Workers) -> None:
        """In the old workers, which may not have an entry: what was added after their time does not concern them."""
        for pid in workers.old_pids if commands else ():
            async with self._unless_it_ends(pid):
                await self._old(pid).change(commands, tolerate=(KEY_NOT_FOUND,))

    async def let_go(self, kept: Set[ReplicaId], draining: Set[ReplicaId], workers: Workers) -> Leftovers:
        """Take leave of every replica of the old workers that is not kept: of draining ones when they are idle, of all
        others at once, their requests included."""
        self._cut = {(pid, slot) for pid, slot in self._cut if pid in workers.old_pids}
        reachable: set[ReplicaId] = set()
        cut_off: set[ReplicaId] = set()
        commands = 0
        for pid, load in (await self._loads_of_old(workers)).items():
            closed = load.silent_clients == 0 and await self._has_stopped_listening(pid)
            for (slot, replica_id), requests in load.servers.items():
                if replica_id in kept:
                    continue
                if replica_id not in draining or (requests == 0 and closed):
                    commands += await self._cut_route(pid, slot)
                    cut_off.add(replica_id)
                if replica_id not in draining and requests > 0:
                    commands += await self._end_requests(pid, slot, replica_id)
                if requests > 0 or _waiting(load, slot) > 0 or (pid, slot) not in self._cut:
                    reachable.add(replica_id)
        return Leftovers(frozenset(reachable), frozenset(cut_off - reachable), commands)

    async def _cut_route(self, pid: int, slot: int) -> int:
        if (pid, slot) in self._cut:
            return 0
        sent = 0
        async with self._unless_it_ends(pid):
            for key, value in (await self._old(pid).map_entries(self._routes_map)).items():
                if slot_of(value) == str(slot):
                    project_id, container_id = owner_of(value)
                    nowhere = f"{project_id}:{container_id}:{NO_SLOT}"
                    await self._old(pid).change([set_map(self._routes_map, key, nowhere)])
                    sent += 1
        self._cut.add((pid, slot))
        return sent

    async def _end_requests(self, pid: int, slot: int, replica_id: ReplicaId) -> int:
        async with self._unless_it_ends(pid):
            return await self._old(pid).end_requests((slot, replica_id))
        return 0

    async def _loads_of_old(self, workers: Workers) -> dict[int, Load]:
        loads = {}
        for pid in workers.old_pids:
            async with self._unless_it_ends(pid):
                loads[pid] = await self._old(pid).load()
        return loads

    async def _has_stopped_listening(self, pid: int) -> bool:
        async with self._unless_it_ends(pid):
            return (await self._old(pid).info()).get("Stopping") == "1"
        return True

    def _old(self, pid: int) -> Worker:
        return self._process.master.old_worker(pid)

    @contextlib.asynccontextmanager
    async def _unless_it_ends(self, pid: int) -> AsyncIterator[None]:
        """An old worker that finished and ended meanwhile holds nothing: then not to get an answer is no failure."""
        try:
            yield
        except HaproxyError:
            deadline = self._clock.monotonic() + _ENDING_S
            while pid in (await self._process.master.workers()).old_pids:
                if self._clock.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.02)


def _waiting(load: Load, slot: int) -> int:
    """Requests of the slot that no server has yet."""
    assigned = sum(requests for (its_slot, _), requests in load.servers.items() if its_slot == slot)
    return load.slots.get(slot, 0) - assigned

"""All workers of one HAProxy: the current one, and those that a reload left to finish their requests.

After a reload the new worker shows nothing in flight while the old one still serves. Whoever asks whether a
replica or a slot is empty has to ask all of them.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass
from typing import TypeVar

from moorage.gateway import haproxy
from moorage.gateway.haproxy import HaproxyError, Worker, Workers
from moorage.gateway.layout import ServerKey, ServerState
from moorage.gateway.process import HaproxyProcess
from moorage.kit.ids import ReplicaId

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True)
class InFlight:
    current: Mapping[ServerKey, int]
    total: Mapping[ReplicaId, int]
    """Over all workers."""


class AllWorkers:
    def __init__(self, process: HaproxyProcess) -> None:
        self._process = process
        self._told: set[tuple[int, ServerKey, ServerState]] = set()

    async def in_flight(self, workers: Workers) -> InFlight:
        current = await self._process.worker.in_flight()
        total: Counter[ReplicaId] = Counter()
        for requests in [current, *(await self._of_old(workers, Worker.in_flight)).values()]:
            for (_, replica_id), count in requests.items():
                total[replica_id] += count
        return InFlight(current, dict(total))

    async def busy_slots(self, workers: Workers) -> set[int]:
        current = await self._process.worker.slots()
        busy: set[int] = set()
        for slots in [current, *(await self._of_old(workers, Worker.slots)).values()]:
            busy |= {slot for slot, requests in slots.items() if requests > 0}
        return busy

    async def tell_old(self, replicas: Set[ReplicaId], state: ServerState, workers: Workers) -> int:
        """Drain or stop these replicas in the old workers too: a request that waits in one of their queues must
        not be sent to an address that is about to belong to somebody else. Returns the commands sent."""
        self._told = {told for told in self._told if told[0] in workers.old_pids}
        if not replicas or not workers.old_pids:
            return 0
        sent = 0
        for pid, servers in (await self._of_old(workers, Worker.in_flight)).items():
            for key in sorted(key for key in servers if key[1] in replicas):
                if (pid, key, state) not in self._told:
                    commands = (
                        [haproxy.drain(key)] if state is ServerState.DRAIN else haproxy.stop_server(key)
                    )
                    await self._tell(pid, commands)
                    self._told.add((pid, key, state))
                    sent += len(commands)
        return sent

    async def _tell(self, pid: int, commands: list[str]) -> None:
        try:
            await self._process.master.old_worker(pid).change(commands)
        except HaproxyError:
            if await self._still_there(pid):
                raise

    async def _of_old(
        self, workers: Workers, ask: Callable[[Worker], Awaitable[AnswerT]]
    ) -> dict[int, AnswerT]:
        answers = {}
        for pid in workers.old_pids:
            try:
                answers[pid] = await ask(self._process.master.old_worker(pid))
            except HaproxyError:
                # One that has finished and ended holds nothing; any other failure is one.
                if await self._still_there(pid):
                    raise
        return answers

    async def _still_there(self, pid: int) -> bool:
        return pid in (await self._process.master.workers()).old_pids

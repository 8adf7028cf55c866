"""Reads the slots' counters of all workers, so that no request is missed or counted twice.

Purpose: `read` says what every container did since it was last asked. Invariants: a slot is looked at before it gets
another owner; a worker that a reload replaces is held until it has no client left and was looked at once more.
When it fails: the next call counts what this one could not.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import structlog

from moorage.gateway.held_worker import HeldWorker
from moorage.gateway.process import HaproxyProcess
from moorage.gateway.runtime_socket import HaproxyError
from moorage.gateway.usage import ContainerUse, SlotUse, Usage
from moorage.kit.ids import ContainerId

log = structlog.get_logger()

_LOOK_AT_ALL_FROM_SLOTS = 1000
"""Up to so many slots all are looked at every time; of more, those that are busy, and all in turns as often as keeps
the cost the same. HAProxy needs 17 µs for each."""


class UsageReader:
    def __init__(self, process: HaproxyProcess, stats_socket: Path) -> None:
        self._process = process
        self._stats_socket = stats_socket
        self._usage = Usage()
        self._wanted = False
        """Nobody asked yet: then there is nothing to be exact about."""
        self._pid: int | None = None
        self._replacing = False
        """The socket may answer for the worker's successor already."""
        self._held: dict[int, HeldWorker] = {}
        self._busy: set[SlotUse] = set()
        self._requests_before = -1
        self._calls_until_all = 0

    def owned_by(self, pid: int, owners: Mapping[int, ContainerId]) -> None:
        self._pid = pid
        self._replacing = False
        self._usage.own(pid, owners)

    def lost(self) -> None:
        """HAProxy is gone, and its counters with it."""
        self._pid = None
        for held in self._held.values():
            held.let_go()
        self._held.clear()

    async def before_owners_change(self, owners: Mapping[int, ContainerId]) -> None:
        if self._pid is None:
            return
        if self._wanted and (slots := self._usage.to_look_at(self._pid, owners)):
            self._usage.look(self._pid, await self._process.worker.counters(sorted(slots)))
        self._usage.own(self._pid, owners)

    @contextlib.asynccontextmanager
    async def across_reload(self) -> AsyncIterator[None]:
        if not self._wanted or self._pid is None:
            yield
            return
        held, pid = await HeldWorker.hold(self._stats_socket), self._pid
        self._replacing = True
        try:
            yield
        except BaseException:
            held.let_go()
            self._replacing = False
            raise
        self._held[pid] = held

    async def read(self) -> dict[ContainerId, ContainerUse]:
        if self._pid is None:
            return {}
        if not self._wanted:
            self._usage.begin(self._pid, await self._process.worker.counters())
            self._wanted = True
        await self._look_at_held()
        await self._look_at_current(self._pid)
        self._usage.forget_others({self._pid, *self._held})
        return self._usage.take()

    async def _look_at_held(self) -> None:
        for pid, held in list(self._held.items()):
            try:
                # In this order: who has no client now gets none later, and what it counted is final.
                done = not await held.has_clients()
                self._usage.look(pid, await held.counters())
            except HaproxyError as exc:
                log.warning("old_worker_ended_unread", pid=pid, error=repr(exc))
                done = True
            if done:
                held.let_go()
                del self._held[pid]

    async def _look_at_current(self, pid: int) -> None:
        if self._replacing:
            return
        worker = self._process.worker
        requests, clients = await worker.endpoint_requests()
        busy = {slot for owner_pid, slot in self._busy if owner_pid == pid}
        if requests == self._requests_before and clients == 0 and not busy:
            return
        self._requests_before = requests
        self._calls_until_all -= 1
        if self._calls_until_all <= 0:
            slots = await worker.counters()
            self._calls_until_all = max(len(slots) // _LOOK_AT_ALL_FROM_SLOTS, 1)
        else:
            slots = await worker.counters(sorted(busy))
        if pid != self._pid or self._replacing:
            return  # A reload came between: whose answer is it? The next look knows.
        self._usage.look(pid, slots)
        self._busy = {(pid, slot) for slot, counters in slots.items() if counters.in_flight > 0}

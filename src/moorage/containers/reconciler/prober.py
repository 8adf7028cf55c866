"""Health checks of replicas that are starting, beside the passes: one that hangs holds up nothing but itself.

A pass waits for a moment, because most small servers are up in one and a second pass costs more. What takes longer
goes on by itself, up to its deadline, and asks for a pass when it knows more.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import aiohttp

from moorage.containers.models import ContainerRow
from moorage.containers.reconciler.probe import PROBE_TIMEOUT_S, Door, probe_replica
from moorage.containers.spec import ContainerSettings
from moorage.containers.verdict import Probe
from moorage.engines.base import ObservedReplica
from moorage.engines.doors import Doors, door_name
from moorage.outbound.few_answers import FewAnswersConnector

YOUNG = timedelta(seconds=3)
ASK_THE_YOUNG_FOR_S = 0.3
"""Most small servers are up in a moment: ask for so long within one pass, which is cheaper than many passes.
Whatever else is to be done about the container waits as long."""
WAIT_S = 0.4
"""A pass waits no longer than this for all its probes together."""
_SHORTEST_PROBE_S = 1.0


@dataclass
class Prober:
    ask: Callable[[str], None]
    doors: Doors | None = None
    _running: dict[str, dict[str, asyncio.Task[Probe]]] = field(init=False, default_factory=dict)
    """By container and replica."""
    _last: dict[str, dict[str, Probe]] = field(init=False, default_factory=dict)
    _http: aiohttp.ClientSession | None = field(init=False, default=None)

    async def probe(
        self, container: ContainerRow, starting: Sequence[ObservedReplica], now: datetime
    ) -> frozenset[str]:
        """Those of which something new is known. Of all others of the container nothing is kept."""
        running = self._running.setdefault(container.id, {})
        names = {one.replica_id for one in starting}
        for replica_id in running.keys() - names:
            running.pop(replica_id).cancel()
        last = self._last.setdefault(container.id, {})
        for replica_id in last.keys() - names:
            del last[replica_id]
        begun = []
        for one in starting:
            if one.replica_id not in running:
                running[one.replica_id] = task = asyncio.create_task(self._probe(container, one, now))
                begun.append(task)
        if begun:
            await asyncio.wait(begun, timeout=WAIT_S)
        fresh = {name for name, task in running.items() if task.done() and not task.cancelled()}
        for replica_id in fresh:
            last[replica_id] = running.pop(replica_id).result()
        for task in begun:
            if not task.done():
                task.add_done_callback(_asking(self.ask, container.id))
        if not names:
            self.forget(container.id)
        return frozenset(fresh)

    def last(self, container_id: str, replica_id: str) -> Probe | None:
        return self._last.get(container_id, {}).get(replica_id)

    def under_way(self, container_id: str) -> frozenset[str]:
        return frozenset(self._running.get(container_id, {}))

    def forget(self, container_id: str) -> None:
        for task in self._running.pop(container_id, {}).values():
            task.cancel()
        self._last.pop(container_id, None)

    def forget_all(self) -> None:
        for container_id in [*self._running]:
            self.forget(container_id)
        self._last.clear()

    async def close(self) -> None:
        tasks = [task for running in self._running.values() for task in running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._running.clear()
        if self._http is not None:
            await self._http.close()

    async def _probe(self, container: ContainerRow, replica: ObservedReplica, now: datetime) -> Probe:
        settings = ContainerSettings.from_json(container.settings)
        return await probe_replica(
            self._http_session(),
            *_address(replica),
            settings.health_path,
            door=await self._door(replica),
            patience_s=_patience_s(replica, now),
            age_s=_age_s(replica, now),
            timeout_s=_probe_timeout_s(replica, settings.health_timeout_s, now),
        )

    async def _door(self, replica: ObservedReplica) -> Door | None:
        if not replica.has_door:
            return None
        assert self.doors is not None, "whoever starts replicas with doors knows who signs for them"
        return Door(door_name(replica.replica_id), await self.doors.trust())

    def _http_session(self) -> aiohttp.ClientSession:
        if self._http is None:
            connector = FewAnswersConnector(force_close=True, limit=0)
            timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
            self._http = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        return self._http


def _address(replica: ObservedReplica) -> tuple[str, int]:
    assert replica.host is not None, "only what has an address is asked"
    assert replica.host_port is not None, "which has a port"
    return replica.host, replica.host_port


def _asking(ask: Callable[[str], None], container_id: str) -> Callable[[asyncio.Task[Probe]], None]:
    def done(task: asyncio.Task[Probe]) -> None:
        if not task.cancelled():
            ask(container_id)

    return done


def _patience_s(replica: ObservedReplica, now: datetime) -> float:
    young = replica.started_at is not None and now - replica.started_at < YOUNG
    return ASK_THE_YOUNG_FOR_S if young else 0.0


def _probe_timeout_s(replica: ObservedReplica, health_timeout_s: int, now: datetime) -> float:
    """A server that hangs must not hold up the end of its own time."""
    return min(PROBE_TIMEOUT_S, max(health_timeout_s - _age_s(replica, now), _SHORTEST_PROBE_S))


def _age_s(replica: ObservedReplica, now: datetime) -> float:
    """Its machine's clock may be ahead of ours."""
    return max((now - replica.started_at).total_seconds(), 0.0) if replica.started_at is not None else 0.0

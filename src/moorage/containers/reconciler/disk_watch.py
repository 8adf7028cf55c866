"""Keeps one replica from filling the disk of its machine, where the engine itself does not. Each machine by itself.

It decides about nothing but who has to go: the container's next pass writes that down and ends the replica. What it
found is lost with the process, and found again by the next look.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from moorage.containers.disk import DiskUse, LastLook, evictions, must_look
from moorage.containers.reconciler import repository
from moorage.containers.reconciler.pulse import Pulse
from moorage.containers.verdict import Verdict
from moorage.engines.base import DiskSpace
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

EVERY_S = 1.0


@dataclass
class DiskWatch:
    database: Database
    engines: Engines
    clock: Clock
    ask: Callable[[str], None]
    """For a pass over a container."""
    pulse: Pulse
    cache_bytes: Callable[[str, str], int] = lambda _engine, _container_id: 0
    """By engine and container: what its cache there held a moment ago."""
    _evicted: dict[str, Mapping[str, Verdict]] = field(init=False, default_factory=dict)
    """By engine: replicas that have to go, until nothing of them is left."""
    _last: dict[str, LastLook] = field(init=False, default_factory=dict)
    """By engine."""

    def why_evicted(self, engine: str, replica_id: str) -> Verdict | None:
        return self._evicted.get(engine, {}).get(replica_id)

    async def run(self, name: str, lease: Lease) -> None:
        """Of one engine."""
        while True:
            lease.check()
            await self.pulse.until_it_answers(name)
            try:
                space = await self.engines.of(name).disk_space()
                if space is not None and must_look(self._last.get(name), space, self.clock.monotonic()):
                    await self._look(name, space)
            except EngineError as exc:
                log.warning("disk_not_seen", engine=name, error=str(exc))
            await self.clock.sleep(EVERY_S)

    async def _look(self, name: str, space: DiskSpace) -> None:
        began_s = self.clock.monotonic()
        async with self.database.reading() as session:
            replicas = {one.engine_id: one for one in await repository.list_disks(session, name)}
        written = await self.engines.of(name).written_bytes(
            {engine_id: one.disk_bytes for engine_id, one in replicas.items()}
        )
        # A cache counts once, and for whoever came last: those who shared it before give nothing back when they end.
        newest = {one.container_id: one.replica_id for one in reversed(replicas.values()) if not one.ended}
        uses = [
            DiskUse(
                one.replica_id,
                one.disk_bytes,
                written[engine_id],
                self.cache_bytes(name, one.container_id)
                if newest.get(one.container_id) == one.replica_id
                else 0,
            )
            for engine_id, one in replicas.items()
            if engine_id in written
        ]
        before = self._evicted.get(name, {})
        evicted = {use.replica_id: before[use.replica_id] for use in uses if use.replica_id in before}
        ended = {one.replica_id for one in replicas.values() if one.ended}
        new = evictions(uses, evicted.keys() | ended, space)
        self._evicted[name] = {**evicted, **new}
        ended_s = self.clock.monotonic()
        self._last[name] = LastLook(ended_s, ended_s - began_s, space.free_bytes)
        for one in replicas.values():
            if one.replica_id in new:
                log.warning("replica_evicted", replica_id=one.replica_id, message=new[one.replica_id].message)
                self.ask(one.container_id)

"""Keeps one replica from filling the disk of its machine, where the engine itself does not. Each machine by itself: every
second where something runs, and of many machines less often where nothing does.

It decides about nothing but who has to go: the container's next pass writes that down and ends the replica. What it
found is lost with the process, and found again by the next look.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from moorage.containers.disk import LOOK_EVERY_S, DiskUse, LastLook, evictions, must_look
from moorage.containers.reconciler import repository
from moorage.containers.reconciler.pulse import Pulse
from moorage.containers.reconciler.repository import Disk
from moorage.containers.verdict import Verdict
from moorage.engines.base import DiskSpace
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.kit.together import Together
from moorage.reconcile.lease import Lease
from moorage.reconcile.watches import Pauses

log = structlog.get_logger()

EVERY_S = 1.0
_STILL_TRUE_S = 2 * EVERY_S


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
    _seen: dict[str, tuple[float, DiskSpace | None]] = field(init=False, default_factory=dict)
    """By engine: when its disk was looked at, and what there was."""
    _empty: set[str] = field(init=False, default_factory=set)
    """Engines that had nothing at the last look."""
    _begun: set[str] = field(init=False, default_factory=set)
    """Engines on which something began since."""
    _disks: Together[str, None, Sequence[Disk]] = field(init=False)
    """By engine."""
    _pauses: Pauses = field(init=False)

    def __post_init__(self) -> None:
        self._disks = Together(self._read_disks, self.clock, self.engines.pause_s)
        self._pauses = Pauses(self.clock)

    async def _read_disks(self, engines: Mapping[str, None]) -> Mapping[str, Sequence[Disk]]:
        async with self.database.reading() as session:
            return await repository.list_disks(session, engines)

    def why_evicted(self, engine: str, replica_id: str) -> Verdict | None:
        return self._evicted.get(engine, {}).get(replica_id)

    def something_begins(self, engine: str) -> None:
        """Its row is written: from now on it may write to its disk."""
        self._begun.add(engine)
        self._pauses.cut_short(engine)

    async def space(self, engine: str) -> DiskSpace | None:
        """As it was a moment ago, for whoever else has to know."""
        at_s, seen = self._seen.get(engine, (float("-inf"), None))
        if self.clock.monotonic() - at_s < _STILL_TRUE_S:
            return seen
        return await self.engines.of(engine).disk_space()

    async def run(self, name: str, lease: Lease) -> None:
        """Of one engine."""
        self._empty.discard(name)  # Somebody else may have led meanwhile, and begun something.
        while True:
            lease.check()
            self._pauses.begin_round(name)
            await self.pulse.until_it_answers(name)
            try:
                space = await self.engines.of(name).disk_space()
                self._seen[name] = self.clock.monotonic(), space
                if space is not None and must_look(self._last.get(name), space, self.clock.monotonic()):
                    await self._look(name, space)
            except EngineError as exc:
                log.warning("disk_not_seen", engine=name, error=str(exc))
            await self._rest(name)

    async def _rest(self, name: str) -> None:
        now_s = self.clock.monotonic()
        if name in self._empty and name not in self._begun:
            await self._pauses.rest(name, self.engines.turn_in_s(name, self.engines.look_every_s(), now_s))
        else:
            await self.clock.sleep(self.engines.turn_in_s(name, EVERY_S, now_s))

    async def _look(self, name: str, space: DiskSpace) -> None:
        began_s = self.clock.monotonic()
        # What begins from here on may not be among the rows that are read.
        self._begun.discard(name)
        self._empty.discard(name)
        disks = await self._disks.ask(name, None)
        if not disks:
            self._empty.add(name)
        replicas = {one.engine_id: one for one in disks if one.engine_id is not None}
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
        next_in_s = self.engines.turn_in_s(name, LOOK_EVERY_S, ended_s)
        self._last[name] = LastLook(ended_s, ended_s - began_s, space.free_bytes, next_in_s)
        for one in replicas.values():
            if one.replica_id in new:
                log.warning("replica_evicted", replica_id=one.replica_id, message=new[one.replica_id].message)
                self.ask(one.container_id)

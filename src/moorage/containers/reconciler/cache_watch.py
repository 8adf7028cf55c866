"""Keeps the caches of each machine within their bounds, and takes away those that nobody wants. Each machine by itself.

Purpose: rows say what is on the machines; a cache holds no more than its container's setting; what is deleted, unused for too long
or in the way of a disk that fills goes, and never while a replica has it.
When it fails: nothing is decided from a look that failed, and the next one begins anew. Who has to go is lost with the process, and
found again.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog

from moorage.containers.activity import SYSTEM, record_activity
from moorage.containers.caches import repository
from moorage.containers.caches.filling import Sample, step_of, with_sample
from moorage.containers.caches.fullness import Idle, cache_full, is_short, outdated
from moorage.containers.caches.repository import KnownCache, User
from moorage.containers.disk import LOOK_EVERY_S, REST_PER_LOOK, LastLook, must_look
from moorage.containers.reconciler.pulse import Pulse
from moorage.containers.start_times.measuring import Filled, with_look
from moorage.containers.states import ReplicaState
from moorage.containers.verdict import Verdict, size_in_words
from moorage.engines.base import DiskSpace, Engine, HeldCache
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.kit.database import Database, database_now
from moorage.kit.errors import EngineError
from moorage.kit.ids import ContainerId, ReplicaId
from moorage.kit.settings import Settings
from moorage.kit.together import Together
from moorage.reconcile.lease import Lease
from moorage.reconcile.watches import Pauses

log = structlog.get_logger()

EVERY_S = 1.0
_WHILE_FILLING_S = 2.0


@dataclass(frozen=True)
class _Rows:
    """Of one engine."""

    known: Sequence[KnownCache]
    users: Sequence[User]
    now: datetime


@dataclass(frozen=True)
class _Machine:
    """At one moment."""

    name: str
    engine: Engine
    space: DiskSpace | None
    known: Mapping[str, KnownCache]
    """By container."""
    users: Sequence[User]


@dataclass
class CacheWatch:
    database: Database
    engines: Engines
    settings: Settings
    clock: Clock
    ask: Callable[[str], None]
    """For a pass over a container."""
    pulse: Pulse
    space: Callable[[str], Awaitable[DiskSpace | None]]
    """Of an engine's disk, as it was a moment ago."""
    _evicted: dict[str, dict[str, Verdict]] = field(init=False, default_factory=dict)
    """By engine and replica: who has to go."""
    _sizes: dict[str, dict[str, int]] = field(init=False, default_factory=dict)
    """By engine and container."""
    _samples: dict[str, dict[str, tuple[Sample, ...]]] = field(init=False, default_factory=dict)
    """Likewise, while something of the container starts there."""
    _filled: dict[str, dict[str, Filled]] = field(init=False, default_factory=dict)
    """By engine and replica: of each container the one that has been starting there for longest."""
    _last: dict[str, LastLook] = field(init=False, default_factory=dict)
    _filling: set[str] = field(init=False, default_factory=set)
    """Engines on which something with a cache starts."""
    _spare: set[str] = field(init=False, default_factory=set)
    """Engines that keep a cache which nobody uses."""
    _hurried: set[str] = field(init=False, default_factory=set)
    _bare: set[str] = field(init=False, default_factory=set)
    """Engines that had no cache at the last look, and nobody who is to have one."""
    _rows: Together[str, None, _Rows] = field(init=False)
    """By engine."""
    _pauses: Pauses = field(init=False)

    def __post_init__(self) -> None:
        self._rows = Together(self._read_rows, self.clock, self.engines.pause_s)
        self._pauses = Pauses(self.clock)

    async def _read_rows(self, engines: Mapping[str, None]) -> Mapping[str, _Rows]:
        async with self.database.reading() as session:
            known = await repository.known_on(session, engines)
            users = await repository.users_on(session, engines)
            now = await database_now(session)
        return {name: _Rows(known[name], users[name], now) for name in engines}

    def why_evicted(self, engine: str, replica_id: str) -> Verdict | None:
        return self._evicted.get(engine, {}).get(replica_id)

    def size_bytes(self, engine: str, container_id: str) -> int:
        return self._sizes.get(engine, {}).get(container_id, 0)

    def step(self, engine: str, container_id: str) -> dict[str, Any]:
        """What a start there waits for; empty where that is not known."""
        return step_of(self._samples.get(engine, {}).get(container_id, ()))

    def filled(self, engine: str, replica_id: str) -> Filled | None:
        """How its cache grew while it started, as far as somebody looked; None where another started before it."""
        return self._filled.get(engine, {}).get(replica_id)

    def forget_all(self) -> None:
        """Somebody else may have looked since."""
        self._samples.clear()
        self._filled.clear()

    def hurry(self, engine: str) -> None:
        """Something with a cache starts there, or is to be deleted."""
        self._hurried.add(engine)
        self._pauses.cut_short(engine)

    async def run(self, name: str, lease: Lease) -> None:
        """Of one engine."""
        if self.engines.places(name):
            return  # A cluster keeps none.
        self._bare.discard(name)  # Somebody else may have led meanwhile, and begun something.
        while True:
            lease.check()
            self._pauses.begin_round(name)
            await self.pulse.until_it_answers(name)
            try:
                space = await self.space(name)
                if self._is_due(name, space):
                    await self.look(name, space, lease)
            except EngineError as exc:
                log.warning("caches_not_seen", engine=name, error=str(exc))
            await self._rest(name)

    async def _rest(self, name: str) -> None:
        now_s = self.clock.monotonic()
        if name in self._bare and name not in self._hurried:
            # Whatever happens to its disk, no cache is to blame.
            last = self._last[name]
            await self._pauses.rest(name, max(last.at_s + last.next_in_s - now_s, EVERY_S))
        else:
            await self.clock.sleep(self.engines.turn_in_s(name, EVERY_S, now_s))

    def _is_due(self, name: str, space: DiskSpace | None) -> bool:
        last, now_s = self._last.get(name), self.clock.monotonic()
        if last is None:
            return True
        passed_s, rest_s = now_s - last.at_s, last.took_s * REST_PER_LOOK
        if name in self._hurried and passed_s >= rest_s:
            return True
        if name in self._filling and passed_s >= max(_WHILE_FILLING_S, rest_s):
            return True
        # Replicas would have to go otherwise, and what watches for that does not rest for as long.
        short = name in self._spare and space is not None and is_short(space)
        if short and passed_s >= max(_WHILE_FILLING_S, last.took_s * 2):
            return True
        return must_look(last, space or DiskSpace(1, 1), now_s)

    async def look(self, name: str, space: DiskSpace | None, lease: Lease) -> None:
        self._hurried.discard(name)
        self._bare.discard(name)
        began_s = self.clock.monotonic()
        try:
            await self._look(name, space, lease)
        except Exception:
            self._hurried.add(name)
            raise
        finally:
            # Also after one that failed there is a rest: it may have taken long.
            ended_s = self.clock.monotonic()
            free_bytes = space.free_bytes if space is not None else 1
            next_in_s = self.engines.turn_in_s(name, LOOK_EVERY_S, ended_s)
            self._last[name] = LastLook(ended_s, ended_s - began_s, free_bytes, next_in_s)

    async def _look(self, name: str, space: DiskSpace | None, lease: Lease) -> None:
        engine = self.engines.of(name)
        held = await engine.caches()
        # After the list: what was admitted since has a row, and is not taken for unknown.
        rows = await self._rows.ask(name, None)
        if not held and not rows.known and not rows.users:
            self._bare.add(name)
        known = {one.row.container_id: one for one in rows.known}
        machine = _Machine(name, engine, space, known, rows.users)
        kept = [one for one in held if one.replica_id is None]
        removed = await self._remove_unwanted(machine, held, lease)
        there = [one for one in kept if one.container_id not in removed]
        idle = [
            Idle(one.container_id, one.size_bytes, known[one.container_id].row.used_at)
            for one in there
            if not one.in_use and not known[one.container_id].in_use
        ]
        kept_for = timedelta(seconds=self.settings.unused_caches_kept_s)
        for one in outdated(idle, space, kept_for, rows.now):
            if await self._remove(machine, one.container_id, lease):
                removed.add(one.container_id)
                await self._record(machine, one.container_id, "cache.evict", one.size_bytes, lease)
        spare = any(one.container_id not in removed for one in idle)
        (self._spare.add if spare else self._spare.discard)(name)
        bounded = await self._within_bounds(
            machine, [one for one in held if one.container_id not in removed], lease
        )
        vanished = {
            container_id
            for container_id, one in known.items()
            # What is to begin waits for the end of one that is deleted, also where nothing of it is there.
            if (not one.in_use or one.row.deleting_at is not None)
            and container_id not in {cache.container_id for cache in kept}
        }
        sizes = [one for one in bounded if one.replica_id is None]
        if removed or vanished or sizes:
            async with self.database.transaction() as session:
                await lease.guard(session)
                await repository.forget(session, name, removed | vanished)
                await repository.write_sizes(session, name, sizes)
        self._note(machine, bounded)

    async def _remove_unwanted(self, machine: _Machine, held: Sequence[HeldCache], lease: Lease) -> set[str]:
        """What nobody knows, what is deleted, and what was a replica's that is gone. Of containers, those whose kept one went."""
        present = {user.replica_id for user in machine.users}
        removed = set[str]()
        for one in held:
            if one.replica_id is not None:
                if one.replica_id not in present and not one.in_use:
                    await self._remove(machine, one.container_id, lease, one.replica_id)
                continue
            known = machine.known.get(one.container_id)
            if known is not None and known.limit_bytes is not None:
                continue
            # What is to begin waits for this, so its row says nothing (`cache_turns.about_to_be_deleted`).
            wanted = known is not None and one.in_use
            if not wanted and (await self._remove(machine, one.container_id, lease) or known is None):
                removed.add(one.container_id)
        return removed

    async def _remove(
        self, machine: _Machine, container_id: str, lease: Lease, replica_id: ReplicaId | None = None
    ) -> bool:
        """False where something has it, or where it cannot be removed: the others on the machine are looked at all the same."""
        lease.check()
        try:
            removed = await machine.engine.remove_cache(ContainerId(container_id), replica_id)
        except EngineError as exc:
            log.warning("cache_not_removed", engine=machine.name, container_id=container_id, error=str(exc))
            return False
        if removed:
            log.info("cache_removed", engine=machine.name, container_id=container_id)
        return removed

    async def _trimmed(self, machine: _Machine, one: HeldCache, limit_bytes: int, lease: Lease) -> HeldCache:
        lease.check()
        try:
            return await machine.engine.trim_cache(one.container_id, one.replica_id, limit_bytes) or one
        except EngineError as exc:
            log.warning(
                "cache_not_trimmed", engine=machine.name, container_id=one.container_id, error=str(exc)
            )
            return one

    async def _within_bounds(
        self, machine: _Machine, held: Sequence[HeldCache], lease: Lease
    ) -> list[HeldCache]:
        bounded, evicted = [], dict[str, Verdict]()
        for one in held:
            users = [
                user
                for user in machine.users
                if user.container_id == one.container_id and one.replica_id in (None, user.replica_id)
            ]
            known = machine.known.get(one.container_id) if one.replica_id is None else None
            limit_bytes = known.limit_bytes if known is not None else None
            if limit_bytes is None:
                # Also of one that is to go: until then whoever has it fills it no further.
                limit_bytes = next((user.limit_bytes for user in users), None)
            if limit_bytes is None or one.size_bytes <= limit_bytes:
                bounded.append(one)
                continue
            trimmed = await self._trimmed(machine, one, limit_bytes, lease)
            bounded.append(trimmed)
            if trimmed.size_bytes < one.size_bytes:
                freed_bytes = one.size_bytes - trimmed.size_bytes
                await self._record(machine, one.container_id, "cache.trim", freed_bytes, lease)
                if not one.in_use:
                    async with self.database.transaction() as session:
                        await lease.guard(session)
                        await repository.note_cut(session, machine.name, one.container_id)
            newest = next((user for user in users if user.state != ReplicaState.REQUESTED), None)
            if trimmed.size_bytes > limit_bytes and newest is not None:
                # The others served before it was full, and what waits for its turn has written nothing.
                evicted[newest.replica_id] = cache_full(trimmed.size_bytes, limit_bytes)
        before = self._evicted.get(machine.name, {})
        present = {user.replica_id for user in machine.users}
        self._evicted[machine.name] = {
            **{one: verdict for one, verdict in before.items() if one in present},
            **evicted,
        }
        for user in machine.users:
            if user.replica_id in evicted and user.replica_id not in before:
                log.warning("cache_full", replica_id=user.replica_id, container_id=user.container_id)
                self.ask(user.container_id)
        return bounded

    async def _record(
        self, machine: _Machine, container_id: str, kind: str, freed_bytes: int, lease: Lease
    ) -> None:
        known = machine.known.get(container_id)
        if known is None:
            return
        size, node = size_in_words(freed_bytes), known.row.node
        message = {
            "cache.evict": f"Removed its cache of {size} on {node}, which nothing has used since "
            f"{known.row.used_at.date()}. The next start there downloads again.",
            "cache.trim": f"Its cache on {node} was full. Removed the {size} that had been unused the longest.",
        }[kind]
        async with self.database.transaction() as session:
            await lease.guard(session)
            record_activity(
                session,
                project_id=known.project_id,
                container_id=container_id,
                actor=SYSTEM,
                kind=kind,
                message=message,
                details={"node": known.row.node, "freed_bytes": freed_bytes},
            )

    def _note(self, machine: _Machine, held: Sequence[HeldCache]) -> None:
        """For progress, and for whoever asks how much a replica takes of the disk."""
        name, now_s = machine.name, self.clock.monotonic()
        starting = _first_that_start(machine.users)
        sizes, samples, filled = dict[str, int](), dict[str, tuple[Sample, ...]](), dict[str, Filled]()
        samples_before, filled_before = self._samples.get(name, {}), self._filled.get(name, {})
        for one in held:
            sizes[one.container_id] = sizes.get(one.container_id, 0) + one.size_bytes
            if one.container_id in starting:
                sample = Sample(now_s, one.size_bytes, one.compiled_bytes)
                samples[one.container_id] = with_sample(samples_before.get(one.container_id, ()), sample)
                first = starting[one.container_id]
                if one.replica_id in (None, first):
                    filled[first] = with_look(filled_before.get(first), sample)
        self._sizes[name], self._samples[name], self._filled[name] = sizes, samples, filled
        (self._filling.add if starting else self._filling.discard)(name)


def _first_that_start(users: Sequence[User]) -> dict[str, str]:
    """By container the replica that has been starting for longest; where none has a process yet, one that is to begin."""
    found = dict[str, str]()
    for state in (ReplicaState.REQUESTED, ReplicaState.STARTING):
        # Newest first, so that the oldest stays.
        found |= {user.container_id: user.replica_id for user in users if user.state == state}
    return found

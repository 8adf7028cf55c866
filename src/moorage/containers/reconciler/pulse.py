"""Hears whether each engine answers, while there are several: what one machine does not answer, others replace.

It decides nothing: it notes since when a machine is silent, and asks for passes over the containers that have something
there. `planning/plan.py` says what becomes of them. Where there is one engine there is nothing to choose, and no silence is noted.

A machine that comes back may still run what was replaced meanwhile. It is not ready before that is gone: what it has would be
promised a second time.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.catalog.repository import described_engines, note_answers, note_silence
from moorage.containers.reconciler import repository
from moorage.containers.repository import mark_due
from moorage.engines.base import NodeCapacity, ObservedReplica, ReplicaPhase
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.errors import EngineError
from moorage.kit.together import Together
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

EVERY_S = 3.0
ANSWERS_WITHIN_S = 4.0
SAID_AGAIN_AFTER_S = 60.0
"""Somebody may have noted its silence while its engine was being made: nobody else says that it answers."""


@dataclass(frozen=True)
class Silences:
    """What the machines' rows say about those that do not answer."""

    nodes: Sequence[NodeCapacity] = ()
    engines: frozenset[str] = frozenset()
    """That there are."""

    def since(self, engine: str, node: str) -> datetime | None:
        """Since when nobody hears from it; None where it answers, or where no other does."""
        elsewhere = any(
            one.ready and one.engine != engine and one.engine in self.engines for one in self.nodes
        )
        its = next((one for one in self.nodes if one.key == (engine, node)), None)
        return its.unready_since if its is not None and elsewhere else None

    def left(self, engine: str) -> bool:
        return engine not in self.engines and all(one.engine != engine for one in self.nodes)


@dataclass(frozen=True)
class _Answer:
    lease: Lease
    runs: frozenset[str] = frozenset()
    """The replicas that run there."""


@dataclass
class Pulse:
    database: Database
    engines: Engines
    clock: Clock
    hurry: Callable[[str], None]
    """Called with an engine that answers again."""
    silent: frozenset[str] = field(init=False, default=frozenset())
    """Engines that did not answer the last time."""
    _answered_s: dict[str, float] = field(init=False, default_factory=dict)
    _written_until_s: dict[str, float] = field(init=False, default_factory=dict)
    """Of those whose rows say that they answer: until when that need not be said again."""
    _answers: Together[str, _Answer, bool] = field(init=False)
    """By engine: it answers, which is to be written down. Whether that was done."""

    def __post_init__(self) -> None:
        self._answers = Together(self._write_answers, self.clock, self.engines.pause_s)

    async def _write_answers(self, engines: Mapping[str, _Answer]) -> Mapping[str, bool]:
        async with self.database.transaction() as session:
            await next(iter(engines.values())).lease.guard(session)  # it is everybody's
            running = {one for answer in engines.values() for one in answer.runs}
            replaced = await repository.ended_replica_ids(session, running)
            haunted = {name for name, answer in engines.items() if not answer.runs.isdisjoint(replaced)}
            for name in sorted(haunted | await note_answers(session, engines.keys() - haunted, haunted)):
                await self._ask_for_passes(session, name)
        return {name: name not in haunted for name in engines}

    async def run(self, name: str, lease: Lease) -> None:
        """Of one engine."""
        self._answered_s[name] = self.clock.monotonic()
        self._written_until_s.pop(name, None)
        try:
            while True:
                lease.check()
                await self.beat(name, lease)
                await self.clock.sleep(self.engines.turn_in_s(name, EVERY_S, self.clock.monotonic()))
        finally:
            self.silent -= {name}
            self._written_until_s.pop(name, None)

    async def beat(self, name: str, lease: Lease) -> None:
        if self.engines.only(name) and name not in self.silent:
            # Not asked, and taken for ready: a silence that was noted beside another machine may be all that says otherwise.
            await self._answer(name, (), lease)
            return
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                listed = await self.engines.of(name).list_replicas()
        except (EngineError, TimeoutError) as exc:
            await self._no_answer(name, exc, lease)
        else:
            await self._answer(name, listed, lease)

    async def until_it_answers(self, name: str) -> None:
        """For whoever would only hear again that it does not."""
        while name in self.silent:
            await self.clock.sleep(EVERY_S)

    async def run_absent(self, lease: Lease) -> None:
        """Of machines whose engine is not there, or not yet: nobody else would notice."""
        while True:
            async with self.database.reading() as session:
                named = await described_engines(session)
            for name in sorted(named - self.engines.by_name().keys()):
                await self._note_silence(name, 0.0, lease)
            await self.clock.sleep(EVERY_S)

    async def _no_answer(self, name: str, error: Exception, lease: Lease) -> None:
        silent_s = self.clock.monotonic() - self._answered_s.setdefault(name, self.clock.monotonic())
        is_new = name not in self.silent
        self.silent |= {name}
        if is_new:
            log.error("engine_silent", engine=name, error=repr(error))
        await self._note_silence(name, silent_s, lease)

    async def _note_silence(self, name: str, silent_s: float, lease: Lease) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            if await note_silence(session, name, silent_s):
                await self._ask_for_passes(session, name)
        self._written_until_s.pop(name, None)

    async def _ask_for_passes(self, session: AsyncSession, name: str) -> None:
        if concerned := await repository.containers_on(session, name):
            await mark_due(session, concerned)

    async def _answer(self, name: str, listed: Collection[ObservedReplica], lease: Lease) -> None:
        now_s = self._answered_s[name] = self.clock.monotonic()
        if now_s < self._written_until_s.get(name, 0.0):
            return
        if name in self.silent:
            self.silent -= {name}
            log.info("engine_answers_again", engine=name)
            # What was replaced meanwhile is removed there.
            self.hurry(name)
        runs = frozenset(one.replica_id for one in listed if one.phase is ReplicaPhase.RUNNING)
        if await self._answers.ask(name, _Answer(lease, runs)):
            self._written_until_s[name] = now_s + self.engines.turn_in_s(name, SAID_AGAIN_AFTER_S, now_s)

"""What a pass looks at outside the database: the engine's word on each replica, health checks of those that are
starting, and, where something is wrong, a look inside for the verdict."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from moorage.containers.models import ReplicaRow
from moorage.containers.planning.description import LOOK_INSIDE_AFTER
from moorage.containers.probe_history import ProbeRun, with_probe
from moorage.containers.reconciler.doubt_repository import EXPECTED
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.reconciler.prober import Prober
from moorage.containers.states import LIVE, ReplicaState
from moorage.containers.verdict import Probe, Verdict
from moorage.engines.base import Engine, ListeningSocket, ObservedReplica, ReplicaPhase
from moorage.engines.engines import Engines
from moorage.kit.errors import EngineError

log = structlog.get_logger()

LAST_LINES = 30
"""Of an ended replica, to tell why: enough for a traceback."""
ANSWERS_WITHIN_S = 5.0
"""An engine among several that takes longer is not waited for: the container's other replicas are elsewhere."""
_COMING_UP = (ReplicaState.REQUESTED, ReplicaState.STARTING)
AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True)
class Seen:
    """What a pass found outside the database, by replica."""

    busy: frozenset[str]
    """Whatever an engine call was under way for when the pass began, perhaps ended since. Nobody looked at these."""
    missing: frozenset[str]
    """Those that should be there, and that the engine neither found nor named in its list."""
    listed: frozenset[str]
    """What that list named; it is asked for only where something was not found."""
    engine: dict[str, ObservedReplica]
    probes: dict[str, Probe]
    """The last one of each."""
    fresh_probes: frozenset[str]
    """Those whose last probe no pass has seen before."""
    probing: frozenset[str]
    """Those with a probe under way."""
    sockets: dict[str, tuple[ListeningSocket, ...]]
    at_process_limit: frozenset[str]
    last_lines: dict[str, tuple[str, ...]]
    unreachable: frozenset[str] = frozenset()
    """Those whose engine does not answer, while there are others; or that their engine hears nothing of."""
    lost_gpus: Mapping[str, Verdict] = field(default_factory=dict)
    """Of those that ended because their GPU broke."""


@dataclass
class Observer:
    engines: Engines
    ask: Callable[[str], None]
    """For a pass over a container."""
    _prober: Prober = field(init=False)
    _history: dict[str, dict[str, list[ProbeRun]]] = field(init=False, default_factory=dict)
    """By container and replica, of those that are there; a new leader begins with none."""

    def __post_init__(self) -> None:
        self._prober = Prober(self.ask, self.engines.doors)

    async def observe(
        self,
        loaded: Loaded,
        busy: frozenset[str],
        look_at: Callable[[ReplicaRow], Awaitable[ObservedReplica | None]],
        silent: frozenset[str],
    ) -> Seen:
        """`silent` are engines that are known not to answer."""
        questions = _Questions(self.engines, set(silent))
        rows = [row for row in loaded.replicas if row.id not in busy and row.engine not in silent]
        found = await asyncio.gather(*(questions.look(row, look_at) for row in rows))
        engine: dict[str, ObservedReplica] = {one.replica_id: one for one in found if one is not None}
        rows = [row for row in rows if row.id in engine or row.engine not in questions.unanswered]
        unseen = {row.id: row.engine for row in rows if row.id not in engine and row.state in EXPECTED}
        # One answer does not make something gone that should be there: a second process would take its place.
        listed = await questions.lists(set(unseen.values()))
        engine |= {replica_id: one for replica_id, one in listed.items() if replica_id in unseen}
        missing = {
            replica_id
            for replica_id, name in unseen.items()
            if replica_id not in listed and name not in questions.unanswered
        }
        there = [(row, engine[row.id]) for row in rows if row.id in engine]
        starting = [
            observed
            for row, observed in there
            if row.state in _COMING_UP
            and observed.phase is ReplicaPhase.RUNNING
            and observed.host is not None
        ]
        ended = [
            observed for row, observed in there if row.state in LIVE and observed.phase is ReplicaPhase.EXITED
        ]
        fresh = await self._prober.probe(loaded.container, starting, loaded.now)
        probes: dict[str, Probe] = {
            one.replica_id: probe
            for one in starting
            if (probe := self._prober.last(loaded.container.id, one.replica_id)) is not None
        }
        slow = [
            one
            for one in starting
            if one.replica_id in probes
            and probes[one.replica_id].failure
            and one.started_at
            and loaded.now - one.started_at > LOOK_INSIDE_AFTER
        ]
        name_of = {row.id: row.engine for row in loaded.replicas}
        sockets = await asyncio.gather(
            *(questions.sockets(name_of[one.replica_id], one.engine_id) for one in slow)
        )
        limited = await asyncio.gather(
            *(questions.at_process_limit(name_of[one.replica_id], one.engine_id) for one in slow)
        )
        lines = await asyncio.gather(
            *(questions.last_lines(name_of[one.replica_id], one.engine_id) for one in ended)
        )
        return Seen(
            busy=busy,
            missing=frozenset(missing),
            listed=frozenset(listed),
            engine=engine,
            probes=probes,
            fresh_probes=fresh,
            probing=self._prober.under_way(loaded.container.id),
            sockets={one.replica_id: its_sockets for one, its_sockets in zip(slow, sockets, strict=True)},
            at_process_limit=frozenset(
                one.replica_id for one, reached in zip(slow, limited, strict=True) if reached
            ),
            last_lines={one.replica_id: its_lines for one, its_lines in zip(ended, lines, strict=True)},
            unreachable=frozenset(
                row.id
                for row in loaded.replicas
                if row.engine in questions.unanswered
                and row.id not in engine
                and (row.id not in busy or row.engine in silent)
            )
            | {one.replica_id for one in engine.values() if one.unreachable_since is not None},
        )

    def remember(self, loaded: Loaded, seen: Seen) -> Mapping[str, Sequence[ProbeRun]]:
        """How the health checks of this container's replicas went up to now, ours and the gateways'."""
        before = self._history.pop(loaded.container.id, {})
        history: dict[str, list[ProbeRun]] = {}
        for row in loaded.replicas:
            runs = before.get(row.id, [])
            if row.id in seen.fresh_probes:
                runs = with_probe(runs, "controller", seen.probes[row.id], loaded.now)
            failing = loaded.routes[row.id].failing if row.id in loaded.routes else None
            if failing is not None:
                runs = with_probe(runs, "gateway", failing, loaded.now)
            if runs:
                history[row.id] = runs
        if history:
            self._history[loaded.container.id] = history
        return history

    def forget(self, container_id: str) -> None:
        self._history.pop(container_id, None)
        self._prober.forget(container_id)

    def forget_all(self) -> None:
        self._history.clear()
        self._prober.forget_all()

    async def close(self) -> None:
        await self._prober.close()


@dataclass(frozen=True)
class _Questions:
    """A pass asks each engine by itself. What one does not answer concerns its own replicas; where there is no other, it
    fails the pass."""

    engines: Engines
    unanswered: set[str]
    """Engines of which at least one question was not answered."""

    async def ask(
        self, name: str, asks: Callable[[Engine], Awaitable[AnswerT]], otherwise: AnswerT
    ) -> AnswerT:
        if self.engines.only(name):
            return await asks(self.engines.of(name))
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                # Within: its machine may have been removed since the last question.
                return await asks(self.engines.of(name))
        except (EngineError, TimeoutError) as exc:
            log.warning("engine_did_not_answer", engine=name, error=repr(exc))
            self.unanswered.add(name)
            return otherwise

    async def look(
        self, row: ReplicaRow, look_at: Callable[[ReplicaRow], Awaitable[ObservedReplica | None]]
    ) -> ObservedReplica | None:
        return await self.ask(row.engine, lambda _: look_at(row), None)

    async def lists(self, names: Collection[str]) -> dict[str, ObservedReplica]:
        found: dict[str, ObservedReplica] = {}
        for name in sorted(names):
            listed: list[ObservedReplica] = await self.ask(name, lambda engine: engine.list_replicas(), [])
            found |= {one.replica_id: one for one in listed}
        return found

    async def sockets(self, name: str, engine_id: str) -> tuple[ListeningSocket, ...]:
        return await self.ask(name, lambda engine: engine.listening_sockets(engine_id), ())

    async def at_process_limit(self, name: str, engine_id: str) -> bool:
        return await self.ask(name, lambda engine: engine.process_limit_reached(engine_id), False)

    async def last_lines(self, name: str, engine_id: str) -> tuple[str, ...]:
        return await self.ask(name, lambda engine: engine.last_lines(engine_id, LAST_LINES), ())

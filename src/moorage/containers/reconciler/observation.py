"""What a pass looks at outside the database: the engine's word on each replica, health checks of those that are
starting, and, where something is wrong, a look inside for the verdict."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from moorage.containers.models import ReplicaRow
from moorage.containers.plan import LOOK_INSIDE_AFTER
from moorage.containers.probe_history import ProbeRun, with_probe
from moorage.containers.reconciler.doubt_repository import EXPECTED
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.reconciler.prober import Prober
from moorage.containers.states import LIVE, ReplicaState
from moorage.containers.verdict import Probe, Verdict
from moorage.engines.base import Engine, ListeningSocket, ObservedReplica, ReplicaPhase

LAST_LINES = 30
"""Of an ended replica, to tell why: enough for a traceback."""
_COMING_UP = (ReplicaState.REQUESTED, ReplicaState.STARTING)


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
    lost_gpus: Mapping[str, Verdict] = field(default_factory=dict)
    """Of those that ended because their GPU broke."""


@dataclass
class Observer:
    engine: Engine
    ask: Callable[[str], None]
    """For a pass over a container."""
    _prober: Prober = field(init=False)
    _history: dict[str, dict[str, list[ProbeRun]]] = field(init=False, default_factory=dict)
    """By container and replica, of those that are there; a new leader begins with none."""

    def __post_init__(self) -> None:
        self._prober = Prober(self.ask)

    async def observe(
        self,
        loaded: Loaded,
        busy: frozenset[str],
        look_at: Callable[[ReplicaRow], Awaitable[ObservedReplica | None]],
    ) -> Seen:
        rows = [row for row in loaded.replicas if row.id not in busy]
        found = await asyncio.gather(*(look_at(row) for row in rows))
        engine: dict[str, ObservedReplica] = {one.replica_id: one for one in found if one is not None}
        unseen = {row.id for row in rows if row.id not in engine and row.state in EXPECTED}
        # One answer does not make something gone that should be there: a second process would take its place.
        listed = {one.replica_id: one for one in await self.engine.list_replicas()} if unseen else {}
        engine |= {replica_id: one for replica_id, one in listed.items() if replica_id in unseen}
        there = [(row, engine[row.id]) for row in rows if row.id in engine]
        starting = [
            observed
            for row, observed in there
            if row.state in _COMING_UP and observed.phase is ReplicaPhase.RUNNING
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
        sockets = await asyncio.gather(*(self.engine.listening_sockets(one.engine_id) for one in slow))
        limited = await asyncio.gather(*(self.engine.process_limit_reached(one.engine_id) for one in slow))
        lines = await asyncio.gather(*(self.engine.last_lines(one.engine_id, LAST_LINES) for one in ended))
        return Seen(
            busy=busy,
            missing=frozenset(unseen - listed.keys()),
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

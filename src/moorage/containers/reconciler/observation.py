"""What a pass looks at outside the database: the engine's word on each replica, health checks of those that are
starting, and, where something is wrong, a look inside for the verdict."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import aiohttp

from moorage.containers.models import ReplicaRow
from moorage.containers.plan import LOOK_INSIDE_AFTER
from moorage.containers.probe_history import ProbeRun, with_probe
from moorage.containers.reconciler.loading_repository import Loaded
from moorage.containers.reconciler.probe import PROBE_TIMEOUT_S, probe_replica
from moorage.containers.spec import ContainerSettings
from moorage.containers.states import LIVE, ReplicaState
from moorage.containers.verdict import Probe
from moorage.engines.base import Engine, ListeningSocket, ObservedReplica, ReplicaPhase

YOUNG = timedelta(seconds=3)
ASK_THE_YOUNG_FOR_S = 0.3
"""Most small servers are up in a moment: ask for so long within one pass, which is cheaper than many passes.
Whatever else is to be done about the container waits as long."""
LAST_LINES = 30
"""Of an ended replica, to tell why: enough for a traceback."""
_SHORTEST_PROBE_S = 1.0
_COMING_UP = (ReplicaState.REQUESTED, ReplicaState.STARTING)


@dataclass(frozen=True)
class Seen:
    """What a pass found outside the database, by replica."""

    engine: dict[str, ObservedReplica]
    probes: dict[str, Probe]
    sockets: dict[str, tuple[ListeningSocket, ...]]
    at_process_limit: frozenset[str]
    last_lines: dict[str, tuple[str, ...]]


@dataclass
class Observer:
    engine: Engine
    _history: dict[str, dict[str, list[ProbeRun]]] = field(init=False, default_factory=dict)
    """By container and replica, of those that are there; a new leader begins with none."""
    _http: aiohttp.ClientSession | None = field(init=False, default=None)

    async def observe(
        self,
        loaded: Loaded,
        rows: Sequence[ReplicaRow],
        look_at: Callable[[ReplicaRow], Awaitable[ObservedReplica | None]],
    ) -> Seen:
        found = await asyncio.gather(*(look_at(row) for row in rows))
        there = [(row, observed) for row, observed in zip(rows, found, strict=True) if observed is not None]
        starting = [
            observed
            for row, observed in there
            if row.state in _COMING_UP and observed.phase is ReplicaPhase.RUNNING
        ]
        ended = [
            observed for row, observed in there if row.state in LIVE and observed.phase is ReplicaPhase.EXITED
        ]
        probes = await self._probe(loaded, starting)
        slow = [
            one
            for one in starting
            if probes[one.replica_id].failure
            and one.started_at
            and loaded.now - one.started_at > LOOK_INSIDE_AFTER
        ]
        sockets = await asyncio.gather(*(self.engine.listening_sockets(one.engine_id) for one in slow))
        limited = await asyncio.gather(*(self.engine.process_limit_reached(one.engine_id) for one in slow))
        lines = await asyncio.gather(*(self.engine.last_lines(one.engine_id, LAST_LINES) for one in ended))
        return Seen(
            engine={row.id: observed for row, observed in there},
            probes=probes,
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
            if row.id in seen.probes:
                runs = with_probe(runs, "controller", seen.probes[row.id], loaded.now)
            failing = loaded.routes[row.id].failing if row.id in loaded.routes else None
            if failing is not None:
                runs = with_probe(runs, "gateway", failing, loaded.now)
            if runs:
                history[row.id] = runs
        if history:
            self._history[loaded.container.id] = history
        return history

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def _probe(self, loaded: Loaded, starting: Sequence[ObservedReplica]) -> dict[str, Probe]:
        settings = ContainerSettings.from_json(loaded.container.settings)
        probes = await asyncio.gather(
            *(
                probe_replica(
                    self._http_session(),
                    one.host,
                    one.host_port,
                    settings.health_path,
                    patience_s=_patience_s(one, loaded.now),
                    timeout_s=_probe_timeout_s(one, settings.health_timeout_s, loaded.now),
                )
                for one in starting
            )
        )
        return {one.replica_id: probe for one, probe in zip(starting, probes, strict=True)}

    def _http_session(self) -> aiohttp.ClientSession:
        if self._http is None:
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
            self._http = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        return self._http


def _patience_s(replica: ObservedReplica, now: datetime) -> float:
    young = replica.started_at is not None and now - replica.started_at < YOUNG
    return ASK_THE_YOUNG_FOR_S if young else 0.0


def _probe_timeout_s(replica: ObservedReplica, health_timeout_s: int, now: datetime) -> float:
    """A server that hangs must not hold up the end of its own time."""
    age_s = (now - replica.started_at).total_seconds() if replica.started_at is not None else 0.0
    return min(PROBE_TIMEOUT_S, max(health_timeout_s - age_s, _SHORTEST_PROBE_S))

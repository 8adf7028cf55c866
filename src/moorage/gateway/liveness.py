"""Which replicas answer their health checks, and which of them get no new requests for now.

HAProxy asks every replica that has a health path and only counts: `fall` is so high that it never takes one out by
itself, because it would take out all of them together. A model server at its limit is slow to answer and not dead, so
of a container's replicas at most half rest at a time, and never the only one. A resting replica has the weight 0: it
finishes what it has, is asked on, and takes requests again as soon as it answers.

What is done is read from HAProxy each time, so a restarted agent, or a reload that forgot the weights, changes nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from moorage.gateway import commands
from moorage.gateway.haproxy import Worker
from moorage.gateway.layout import Layout, ServerKey, ServerState
from moorage.gateway.stats import CheckedServer
from moorage.kit.clock import Clock
from moorage.kit.ids import ReplicaId

FAILURES = 3
"""So many checks in a row without a good answer."""


@dataclass(frozen=True)
class Health:
    """Of a replica that fails its checks."""

    failure: str
    """As `ProbeFailure` says it: refused, timeout or status."""
    status: int | None
    answered: int
    """Requests that it has answered since HAProxy knows it. One that goes on answering is only slow."""


def resting(servers: Iterable[CheckedServer]) -> set[ServerKey]:
    """Those that should rest, of what HAProxy sees. Who rests already goes on resting before another does, so that
    two that are both failing do not take turns."""
    by_slot: dict[int, list[CheckedServer]] = {}
    for server in servers:
        by_slot.setdefault(server.key[0], []).append(server)
    chosen: set[ServerKey] = set()
    for ready in by_slot.values():
        failing = [server for server in ready if server.failures >= FAILURES]
        failing.sort(key=lambda server: (not server.rests, -server.failures, server.key))
        chosen |= {server.key for server in failing[: len(ready) // 2]}
    return chosen


class Liveness:
    def __init__(self, worker: Worker, interval_s: float, clock: Clock) -> None:
        self._worker = worker
        self._interval_s = interval_s
        self._clock = clock
        self._looked_at_s = float("-inf")
        self._resting: frozenset[ServerKey] = frozenset()
        self._health: Mapping[ReplicaId, Health] = {}

    async def look(self, layout: Layout) -> Mapping[ReplicaId, Health]:
        """Those that fail, once for each round of checks; in between, what was seen last."""
        now_s = self._clock.monotonic()
        if now_s - self._looked_at_s < self._interval_s:
            return self._health
        checked = {
            key
            for key, placed in layout.servers.items()
            if placed.checked and placed.state is ServerState.READY
        }
        if not checked:
            self._resting, self._health = frozenset(), {}
        else:
            seen = [one for one in await self._worker.checked_servers() if one.key in checked]
            await self._trust(seen)
            # What is on trial has no weight that could be taken from it; one that fails its checks is for the controller to end.
            await self._let_rest([one for one in seen if not layout.servers[one.key].server.on_trial])
            health = await self._health_of([one for one in seen if one.failures >= FAILURES])
            # The same object as before says that there is nothing new to report.
            self._health = self._health if health == self._health else health
        self._looked_at_s = now_s
        return self._health

    async def trust_all(self) -> None:
        """For a worker that just began with servers of its files: a first failed check is not the third."""
        await self._trust(await self._worker.checked_servers())

    async def before(self, target: Layout) -> None:
        """Servers are about to leave. Who rests where then too few would be left is let in again first."""
        ready: dict[int, list[ServerKey]] = {}
        for key, placed in target.servers.items():
            if placed.state is ServerState.READY and not placed.server.on_trial:
                ready.setdefault(key[0], []).append(key)
        kept: set[ServerKey] = set()
        for slot in {slot for slot, _ in self._resting}:
            mine = sorted(key for key in self._resting if key in ready.get(slot, ()))
            kept |= set(mine[: len(ready.get(slot, ())) // 2])
            await self._worker.change([commands.let_in(key) for key in mine if key not in kept])
        self._resting = frozenset(kept)

    async def _trust(self, seen: Sequence[CheckedServer]) -> None:
        await self._worker.change([commands.trust(one.key) for one in seen if not one.trusted])

    async def _let_rest(self, seen: Sequence[CheckedServer]) -> None:
        wanted = resting(seen)
        # First those that come back: a container must not have too few even between two commands.
        back = [commands.let_in(one.key) for one in seen if one.rests and one.key not in wanted]
        tired = [commands.let_rest(one.key) for one in seen if not one.rests and one.key in wanted]
        await self._worker.change([*back, *tired])
        self._resting = frozenset(wanted)

    async def _health_of(self, failing: Sequence[CheckedServer]) -> dict[ReplicaId, Health]:
        health: dict[ReplicaId, Health] = {}
        for slot in sorted({one.key[0] for one in failing}):
            rows = {row["svname"]: row for row in await self._worker.slot_stat(slot)}
            for one in failing:
                if one.key[0] == slot and one.key[1] in rows:
                    health[one.key[1]] = _health(rows[one.key[1]])
        return health


def _health(row: Mapping[str, str]) -> Health:
    """`check_status` is L4CON or L4TOUT for the connection, L7TOUT or L7STS for the answer, and so on."""
    kind = row["check_status"].removeprefix("* ")
    answered = sum(int(row[f"hrsp_{digit}"] or 0) for digit in ("1xx", "2xx", "3xx", "4xx", "5xx", "other"))
    if kind == "L7STS" and row["check_code"].isdigit():
        return Health("status", int(row["check_code"]), answered)
    return Health("timeout" if kind.endswith("TOUT") else "refused", None, answered)

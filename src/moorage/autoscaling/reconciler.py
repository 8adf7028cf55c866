"""The autoscaling reconciler: every two seconds, how many replicas each autoscaling container should have.

Purpose: `desired_replicas` follows demand; the containers reconciler makes it true. Each decision that says something
new is stored with its inputs and its reason. Where a container's history shows a pattern, replicas are asked for before they
are needed (`forecasts.py`).
Invariants: one tick sees one second of all gateways; a decision is written only for the container it was made for (same
generation, same number, within the policy of now), under the lease. Containers that do nothing cost one row to read.
When it fails: the next tick decides from the samples, which are in Postgres; what a decision needs to remember is in the
decisions themselves.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.autoscaling import repository
from moorage.autoscaling.decide import TICK_S, Decision, Fleet, Limit, Samples, State, decide
from moorage.autoscaling.demand import (
    LONGEST_DELAY_S,
    SECONDS_KEPT,
    STEP_S,
    GatewayTime,
    History,
    idle_samples,
    level_at,
    silent_at,
)
from moorage.autoscaling.forecasts import Forecasts
from moorage.autoscaling.repository import ReplicaFacts, Scaled
from moorage.kit.clock import Clock
from moorage.kit.database import Database, database_now
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease
from moorage.telemetry.metrics.repository import list_samples, list_steps
from moorage.telemetry.metrics.samples import Sample

log = structlog.get_logger()

REPORTS_TAKE_S = 0.6
"""How long after a second its samples are in Postgres, usually many times over."""
ADMISSION_TAKES_S = 10
"""A replica that was asked for so long ago and still has no row waits for something."""
LEARN_EVERY_S = 30.0
PURGE_EVERY_S = 3600.0

Said = tuple[int, str | None, int | None]


@dataclass
class Autoscaler:
    database: Database
    clock: Clock
    name: str = "autoscaling"
    channels: tuple[str, ...] = ()
    _next_s: float = field(init=False, default=float("-inf"))
    _histories: dict[str, History] = field(init=False, default_factory=dict)
    _read_until: int | None = field(init=False, default=None)
    """The last second whose samples are in the histories; None: nothing is known yet."""
    _in_flight: dict[str, dict[tuple[str, int], int]] = field(init=False, default_factory=dict)
    """By container, then by gateway and second; the seconds that a silent gateway may still be asked for."""
    _known: frozenset[str] = field(init=False, default=frozenset())
    """The containers of which the following is known."""
    _said: dict[str, Said] = field(init=False, default_factory=dict)
    _rises: dict[str, int] = field(init=False, default_factory=dict)
    _startups_s: dict[str, float] = field(init=False, default_factory=dict)
    _forecasts: Forecasts = field(init=False)
    _learnt_at_s: float = field(init=False, default=float("-inf"))
    _purged_at_s: float = field(init=False, default=float("-inf"))

    def __post_init__(self) -> None:
        self._forecasts = Forecasts(self.database)

    async def due(self, limit: int) -> Due:
        left_s = self._next_s - self.clock.monotonic()
        return Due(["all"], None) if left_s <= 0 else Due([], left_s)

    async def reconcile(self, key: str, lease: Lease) -> None:
        async with self.database.reading() as session:
            now = await database_now(session)
        second = last_tick(now)
        self._next_s = self.clock.monotonic() + (second + TICK_S + REPORTS_TAKE_S - now.timestamp())
        if second == self._read_until:
            return
        await self.tick(second, lease)

    async def tick(self, second: int, lease: Lease) -> None:
        if self._read_until is not None and second < self._read_until:
            self._read_until = (
                None  # The clock was set back: what was known of later seconds is still to come.
            )
        if self._read_until is None:
            self._forget()
        async with self.database.reading() as session:
            scaled = await repository.list_scaled(session)
            gateways = await repository.gateway_times(session, _time(second - SECONDS_KEPT))
        await self._remember(frozenset(one.id for one in scaled), second)
        await self._read_demand(scaled, gateways, second)
        await self._forecasts.keep_up(scaled, self._histories, second)
        facts = await self._facts(scaled)
        waiting = await self._waiting(scaled, facts, second)
        silent = silent_at(second, gateways)
        decisions = []
        for one in scaled:
            samples = self._samples(one, gateways, silent, second)
            found = facts.get(one.id, ReplicaFacts())
            startup_s = self._startups_s.get(one.id)
            fleet = Fleet(
                ready=found.ready - found.failing,
                coming=found.coming,
                failing=found.failing,
                waits_for=waiting.get(one.id),
                startup_s=startup_s,
            )
            state = State(one.replicas, self._rises.get(one.id))
            outlook = self._forecasts.outlook(one.id, second, startup_s)
            decisions.append(
                (one, samples, fleet, decide(one.policy, samples, fleet, state, second, outlook))
            )
        news = [
            (one, samples, fleet, decision)
            for one, samples, fleet, decision in decisions
            if decision.replicas != one.replicas or _said(decision) != self._said.get(one.id)
        ]
        if news:
            await self._write(news, second, lease)
        await self._purge(lease)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        # Rows that were not written must not count as said, and time that passed must be read again.
        self._read_until = None
        self._next_s = self.clock.monotonic() + TICK_S

    async def lead(self, lease: Lease) -> None:
        self._read_until = None

    def _forget(self) -> None:
        """All of it: what is left over would belong to nobody who is known, and be kept for ever."""
        self._histories, self._in_flight = {}, {}
        self._forecasts.forget()
        self._known, self._said, self._rises = frozenset(), {}, {}
        self._startups_s, self._learnt_at_s = {}, float("-inf")

    async def _remember(self, ids: frozenset[str], second: int) -> None:
        """What was said last of the containers that are scaled, and nothing of others."""
        if ids == self._known:
            return
        async with self.database.reading() as session:
            rows = await repository.last_decisions(session, ids - self._known)
            rises = await repository.last_rises(session, ids - self._known)
        stay = ids & self._known
        self._said = {name: said for name, said in self._said.items() if name in stay} | {
            name: _said_of(row.replicas, row.limited_by, row.wanted) for name, row in rows.items()
        }
        self._rises = {name: rise for name, rise in self._rises.items() if name in stay} | {
            name: min(int(at.timestamp()), second) for name, at in rises.items()
        }
        self._startups_s = {name: taken_s for name, taken_s in self._startups_s.items() if name in stay}
        self._known = ids

    async def _read_demand(
        self, scaled: Sequence[Scaled], gateways: Sequence[GatewayTime], second: int
    ) -> None:
        first = self._read_until + 1 if self._read_until is not None else second - SECONDS_KEPT + 1
        ids = {one.id for one in scaled}
        new = ids - self._histories.keys() if self._read_until is not None else set()
        async with self.database.reading() as session:
            samples = await list_samples(session, _time(first), _time(second + 1), ids) if ids else []
            older: list[Sample] = []
            if busy := new & {sample.container_id for sample in samples}:
                # They did nothing until now, or were not running; what they did before counts as well.
                begin = _time(second - SECONDS_KEPT + 1)
                older = await list_samples(session, begin, _time(first), busy)
            self._take(older)
            self._take(samples)
            for name in sorted(ids):
                if name in self._in_flight and name not in self._histories:
                    self._histories[name] = await self._begun(session, name, second, scaled)
        self._histories = {name: history for name, history in self._histories.items() if name in ids}
        self._in_flight = {name: found for name, found in self._in_flight.items() if name in ids}
        for name, history in list(self._histories.items()):
            for at in range(history.until + 1, second + 1):
                history.add(level_at(at, gateways, self._in_flight[name]))
            if history.is_empty:
                del self._histories[name], self._in_flight[name]
            else:
                self._forget_seconds(name, gateways, second)
        self._read_until = second

    async def _begun(
        self, session: AsyncSession, name: str, second: int, scaled: Sequence[Scaled]
    ) -> History:
        history = History(second - SECONDS_KEPT + 1)
        delay_s = next(one.policy.scale_down_delay_s for one in scaled if one.id == name)
        if delay_s > SECONDS_KEPT:
            begin, end = _time(second - LONGEST_DELAY_S), _time(second - SECONDS_KEPT + 1)
            for step in await list_steps(session, STEP_S, begin, end, name):
                history.add_step(int(step.at.timestamp()), step.in_flight_mean)
        return history

    def _take(self, samples: Sequence[Sample]) -> None:
        for sample in samples:
            found = self._in_flight.setdefault(sample.container_id, {})
            found[sample.gateway_id, int(sample.at.timestamp())] = sample.in_flight

    def _forget_seconds(self, name: str, gateways: Sequence[GatewayTime], second: int) -> None:
        """Only a gateway's last second may be asked for again."""
        found = self._in_flight[name]
        if len(found) > 2 * SECONDS_KEPT:
            last = {(gateway.gateway_id, gateway.known_at(second)) for gateway in gateways}
            self._in_flight[name] = {
                key: value for key, value in found.items() if key[1] > second - SECONDS_KEPT or key in last
            }

    async def _facts(self, scaled: Sequence[Scaled]) -> dict[str, ReplicaFacts]:
        """Only of those whose number may change or is not the least."""
        ids = [
            one.id
            for one in scaled
            if one.id in self._histories
            or one.replicas != one.policy.min_replicas
            or self._forecasts.has_pattern(one.id)
        ]
        if not ids:
            return {}
        async with self.database.reading() as session:
            facts = await repository.replica_facts(session, ids)
            if self.clock.monotonic() - self._learnt_at_s >= LEARN_EVERY_S:
                self._startups_s = await repository.startup_times_s(session, ids)
                self._learnt_at_s = self.clock.monotonic()
        return facts

    def _samples(
        self, one: Scaled, gateways: Sequence[GatewayTime], silent: tuple[str, ...], second: int
    ) -> Samples:
        if all(gateway.is_silent_at(second) for gateway in gateways):
            return Samples((), 0.0)
        history = self._histories.get(one.id)
        return history.samples(one.policy, silent) if history is not None else idle_samples(silent)

    async def _waiting(
        self, scaled: Sequence[Scaled], facts: dict[str, ReplicaFacts], second: int
    ) -> dict[str, Limit]:
        """Those of which some replicas could not even be begun, and for want of what."""
        waiting = [
            one.id
            for one in scaled
            if (found := facts.get(one.id)) is not None
            and one.replicas > found.ready + found.coming
            and found.failed_lately == 0
            and second - self._rises.get(one.id, 0) > ADMISSION_TAKES_S
        ]
        if not waiting:
            return {}
        async with self.database.reading() as session:
            poor = await repository.without_credit(session, waiting)
        return {name: Limit.CREDIT if name in poor else Limit.CAPACITY for name in waiting}

    async def _write(
        self, news: Sequence[tuple[Scaled, Samples, Fleet, Decision]], second: int, lease: Lease
    ) -> None:
        written = []
        async with self.database.transaction() as session:
            await lease.guard(session)
            for one, samples, fleet, decision in news:
                changes = decision.replicas != one.replicas
                if changes and not await repository.scale(session, one, decision):
                    continue  # Somebody changed the container meanwhile: the next tick sees it as it is.
                await repository.store_decision(
                    session, one, decision, second, _inputs(one, samples, fleet, decision)
                )
                written.append((one, decision))
        for one, decision in written:
            self._said[one.id] = _said(decision)
            if decision.replicas > one.replicas:
                self._rises[one.id] = second
            if decision.replicas != one.replicas:
                log.info(
                    "container_scaled",
                    container_id=one.id,
                    before=one.replicas,
                    replicas=decision.replicas,
                    reason=decision.reason,
                )

    async def _purge(self, lease: Lease) -> None:
        if self.clock.monotonic() - self._purged_at_s < PURGE_EVERY_S:
            return
        async with self.database.transaction() as session:
            await lease.guard(session)
            await repository.purge_decisions(session)
        self._purged_at_s = self.clock.monotonic()


def last_tick(now: datetime) -> int:
    """The newest even second whose samples should be there."""
    second = int(now.timestamp() - REPORTS_TAKE_S)
    return second - second % TICK_S


def _inputs(one: Scaled, samples: Samples, fleet: Fleet, decision: Decision) -> dict[str, Any]:
    """What was decided on, to the digit that the reason shows and one more."""
    seen = decision.evidence
    return {
        "in_flight": _rounded(seen.in_flight),
        "panic_mean": _rounded(seen.panic_mean),
        "stable_mean": _rounded(seen.stable_mean),
        "stable_window_s": one.policy.stable_window_s,
        "expected": _rounded(seen.expected),
        "foreseen": _rounded(seen.foreseen),
        "pattern": seen.pattern,
        "delay_mean": round(samples.delay_mean, 2),
        "silent_gateways": list(samples.silent_gateways),
        "ready": fleet.ready,
        "coming": fleet.coming,
        "failing": fleet.failing,
        "startup_s": round(fleet.startup_s, 1) if fleet.startup_s is not None else None,
        "policy": asdict(one.policy),
    }


def _rounded(value: float | None) -> float | None:
    return round(value, 2) if value is not None else None


def _said(decision: Decision) -> Said:
    return _said_of(decision.replicas, decision.limit, decision.wanted)


def _said_of(replicas: int, limit: str | None, wanted: int) -> Said:
    """Equal decisions are one. How much more or less is wanted is news only where a limit keeps it from coming true."""
    return replicas, limit, wanted if limit in (Limit.MAX, Limit.CREDIT) else None


def _time(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)

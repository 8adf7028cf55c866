"""The metrics reconciler: seconds become steps, and what is too old goes. Who leads it also looks at what replicas use.

Purpose: what happened can be read at 1 s for 15 minutes, at 10 s for a day, at 60 s for 30 days.
Invariants: a step is made only from rows that are complete, and made again it is the same, so a pass that died half-way
is simply repeated. When it fails: the seconds are kept for 15 minutes, within which the next leader catches up.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from moorage.engines.base import Engine
from moorage.engines.each import run_for_each
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.kit.database import Database, database_now
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease
from moorage.reconcile.watches import Watches
from moorage.telemetry.metrics import repository
from moorage.telemetry.metrics.samples import KEEP_SECONDS, longer_steps, start_of, steps_of_seconds
from moorage.telemetry.usage.book import UsageBook
from moorage.telemetry.usage.sampler import UsageSampler
from moorage.telemetry.usage.service import lengthen

EVERY_S = 10.0
LATE = timedelta(seconds=20)
"""A gateway that could not reach Postgres for a moment may still bring seconds so old."""
STEP_S, LONG_STEP_S = 10, 60


@dataclass
class MetricsKeeper:
    database: Database
    engines: Engines
    clock: Clock
    name: str = "metrics"
    channels: tuple[str, ...] = ()
    _next_s: float = field(init=False, default=float("-inf"))
    _done_until: datetime | None = field(init=False, default=None)
    """None: begin with the oldest seconds that are kept."""
    _book: UsageBook = field(init=False)

    def __post_init__(self) -> None:
        self._book = UsageBook(self.database, self.clock, self.engines.pause_s)

    async def due(self, limit: int) -> Due:
        left_s = self._next_s - self.clock.monotonic()
        return Due(["all"], None) if left_s <= 0 else Due([], left_s)

    async def reconcile(self, key: str, lease: Lease) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            now = await database_now(session)
            until = start_of(now - LATE, STEP_S)
            oldest_complete = start_of(now - KEEP_SECONDS, LONG_STEP_S) + timedelta(seconds=LONG_STEP_S)
            if self._done_until is not None and self._done_until > until:
                self._done_until = None  # The clock was set back.
            since = self._done_until or oldest_complete
            samples = await repository.list_samples(session, since, until)
            await repository.store_steps(session, STEP_S, steps_of_seconds(samples, STEP_S))
            # The minute that is not over is made too, and made again until it is.
            minutes_since = start_of(since, LONG_STEP_S)
            steps = await repository.list_steps(session, STEP_S, minutes_since, until)
            await repository.store_steps(session, LONG_STEP_S, longer_steps(steps, STEP_S, LONG_STEP_S))
            await repository.purge(session)
            await lengthen(session, since, until)
        self._done_until = until
        self._next_s = self.clock.monotonic() + EVERY_S

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        self._next_s = self.clock.monotonic() + EVERY_S

    async def lead(self, lease: Lease) -> None:
        # Somebody else may have led meanwhile, and not to the end.
        self._done_until = None
        await run_for_each(self.engines, partial(self._watches_of, lease=lease), self.clock)

    def _watches_of(self, name: str, engine: Engine, *, lease: Lease) -> Watches:
        sampler = UsageSampler(self._book, engine, self.clock, name, self.engines.look_every_s)
        return {"usage": partial(sampler.run, lease)}

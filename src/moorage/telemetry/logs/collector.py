"""The logs reconciler.

Purpose: the output of every replica that has any is followed, and the days of storage, of requests too, come and go.
Invariants: one follower for a replica; every write is guarded by the lease.
When it fails: followers go on from their cursors; a replica that the containers reconciler would not wait for
any longer is let go of. Its objects in the driver's sense are the storage's days and the containers' budgets.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.containers.channels import CONTAINERS, ROUTES
from moorage.engines.engines import Engines
from moorage.kit.clock import Clock
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.errors import LeaseLostError
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease
from moorage.telemetry.logs import repository
from moorage.telemetry.logs.budget.plan import Drop, plan_drops
from moorage.telemetry.logs.budget.repository import drop_oldest, forget_days_before, list_over_budget
from moorage.telemetry.logs.copying import Source
from moorage.telemetry.logs.follower import Follower
from moorage.telemetry.logs.models import LogLineRow
from moorage.telemetry.logs.preparing import Preparer
from moorage.telemetry.partition_repository import (
    DIVIDED_BY_DAYS,
    create_partition,
    drop_partition,
    list_partitions,
)
from moorage.telemetry.partitions import plan_partitions

log = structlog.get_logger()

LOOK_AT_LEAST_EVERY_S = 1.0
LOOK_AFTER_S = 0.15
"""A deployment sends a dozen notifications in half a second, just when others have work to do; nothing is lost by
a look that comes a little later, because a log is read from its first byte."""
WRITERS_AT_ONCE = 3
"""Connections that logs may take from the pool, of which the other reconcilers need some."""
STORAGE = "storage"
BUDGETS = "budgets"
STORAGE_EVERY_S = 60.0
BUDGETS_EVERY_S = 10.0
LINES_DROPPED_AT_ONCE = 20_000
"""In one transaction, so that nobody waits for it long."""
STORAGE_RETRY_S = 5.0


@dataclass
class LogCollector:
    database: Database
    engines: Engines
    keyring: Keyring
    settings: Settings
    clock: Clock
    name: str = "logs"
    channels: tuple[str, ...] = (CONTAINERS, ROUTES)
    _look: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _writers: asyncio.Semaphore = field(init=False)
    _preparer: Preparer = field(init=False)
    _due_s: dict[str, float] = field(
        init=False, default_factory=lambda: dict.fromkeys((STORAGE, BUDGETS), float("-inf"))
    )

    def __post_init__(self) -> None:
        self._writers = asyncio.Semaphore(WRITERS_AT_ONCE)
        self._preparer = Preparer(self.clock)

    async def due(self, limit: int) -> Due:
        """Asked after every notification, which is also when replicas may have come or gone."""
        self._look.set()
        now_s = self.clock.monotonic()
        due = [key for key, at_s in self._due_s.items() if at_s <= now_s]
        return Due(due, None if due else min(self._due_s.values()) - now_s)

    async def reconcile(self, key: str, lease: Lease) -> None:
        if key == STORAGE:
            await self._keep_storage(lease)
        else:
            await self._keep_budgets(lease)

    async def _keep_storage(self, lease: Lease) -> None:
        """Make the next days' partitions, drop those past retention, forget what they were about."""
        for table in DIVIDED_BY_DAYS:
            await self._keep_days(table, lease)
        async with self._guarded(lease) as session:
            await repository.tidy_cursors(session, self.settings.log_retention_days)
            days, _ = await list_partitions(session, LogLineRow.__tablename__)
            await forget_days_before(session, min(days))
        self._due_s[STORAGE] = self.clock.monotonic() + STORAGE_EVERY_S

    async def _keep_budgets(self, lease: Lease) -> None:
        """Drop the oldest lines of the containers that have more than they may."""
        budget_bytes = self.settings.log_bytes_per_container
        async with self.database.reading() as session:
            over = await list_over_budget(session, budget_bytes)
        for container_id, days in over.items():
            for drop in plan_drops(days, budget_bytes):
                await self._drop(container_id, drop, lease)
        self._due_s[BUDGETS] = self.clock.monotonic() + BUDGETS_EVERY_S

    async def _drop(self, container_id: str, drop: Drop, lease: Lease) -> None:
        left = drop.lines
        while left > 0:
            async with self._guarded(lease) as session:
                dropped = await drop_oldest(session, container_id, drop.day, min(left, LINES_DROPPED_AT_ONCE))
            if not dropped:
                break
            left -= dropped
        log.info("log_lines_dropped", container_id=container_id, day=str(drop.day), lines=drop.lines - left)

    async def _keep_days(self, table: str, lease: Lease) -> None:
        async with self.database.reading() as session:
            existing, now = await list_partitions(session, table)
        plan = plan_partitions(existing, now, self.settings.log_retention_days)
        for day in plan.create:
            async with self._guarded(lease) as session:
                await create_partition(session, table, day)
        for day in plan.drop:
            async with self._guarded(lease) as session:
                await drop_partition(session, table, day)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        self._due_s[key] = self.clock.monotonic() + STORAGE_RETRY_S

    async def lead(self, lease: Lease) -> None:
        """Keep one follower for each replica that has output to be stored."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._keep_followers(group, lease)
        except BaseExceptionGroup as errors:
            if errors.subgroup(LeaseLostError) is not None:
                raise LeaseLostError(f"The lease {lease.name} was lost while logs were stored.") from errors
            raise

    async def _keep_followers(self, group: asyncio.TaskGroup, lease: Lease) -> None:
        followers: dict[str, asyncio.Task[None]] = {}
        while True:
            self._look.clear()
            sources = {source.replica_id: source for source in await self._sources(lease)}
            for replica_id in followers.keys() - sources.keys():
                followers.pop(replica_id).cancel()
            for replica_id, source in sources.items():
                if replica_id not in followers or followers[replica_id].done():
                    followers[replica_id] = group.create_task(self._follower(source, lease).run())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AT_LEAST_EVERY_S):
                    await self._look.wait()
            await self.clock.sleep(LOOK_AFTER_S)

    async def _sources(self, lease: Lease) -> list[Source]:
        async with self._guarded(lease) as session:
            await repository.collect_what_never_ran(session)
            return await repository.list_sources(session)

    def _follower(self, source: Source, lease: Lease) -> Follower:
        return Follower(
            source,
            self.database,
            self.engines,
            self.keyring,
            self.clock,
            lease,
            self._writers,
            self._preparer,
        )

    @asynccontextmanager
    async def _guarded(self, lease: Lease) -> AsyncIterator[AsyncSession]:
        async with self.database.transaction() as session:
            await lease.guard(session)
            yield session

"""The sleep reconciler: every two seconds, which containers fall asleep.

Purpose: a container of which nothing was asked for `sleep_after_s` has `asleep_since`; the containers reconciler and the gateways
make that true. Waking is not done here: whoever has a request does it (`gateway/holding`).
Invariants: idleness is what every gateway counted, second by second; while one is silent, nothing falls asleep. A container
whose gateways still have a request for it when they have stopped sending more is woken again: it was not idle.
When it fails: nothing falls asleep meanwhile, and the next tick begins from the rows.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.autoscaling.sleep import repository
from moorage.autoscaling.sleep.idle import known_by_all
from moorage.containers.sleep.service import fall_asleep, stay_awake
from moorage.kit.clock import Clock
from moorage.kit.database import Database, database_now
from moorage.kit.errors import LeaseLostError, MoorageError
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

EVERY_S = 2.0


@dataclass
class SleepReconciler:
    database: Database
    clock: Clock
    name: str = "sleep"
    channels: tuple[str, ...] = ()
    _next_s: float = field(init=False, default=float("-inf"))

    async def due(self, limit: int) -> Due:
        left_s = self._next_s - self.clock.monotonic()
        return Due(["all"], None) if left_s <= 0 else Due([], left_s)

    async def reconcile(self, key: str, lease: Lease) -> None:
        self._next_s = self.clock.monotonic() + EVERY_S
        async with self.database.reading() as session:
            known = known_by_all(await repository.gateways_reporting(session), await database_now(session))
            idle = await repository.list_idle(session, known) if known is not None else []
            in_use = await repository.list_asleep_in_use(session)
        for container_id, sleep_after_s in idle:
            async with self._alone(container_id, lease) as session:
                if await fall_asleep(session, container_id, sleep_after_s):
                    log.info("container_falls_asleep", container_id=container_id, idle_s=sleep_after_s)
        for container_id in in_use:
            # Without credit for the next hour it sleeps once that request has ended, as it would have anyway.
            async with self._alone(container_id, lease) as session:
                await stay_awake(session, container_id)

    @asynccontextmanager
    async def _alone(self, container_id: str, lease: Lease) -> AsyncIterator[AsyncSession]:
        """What is refused to one container keeps no other awake."""
        try:
            async with self.database.transaction() as session:
                await lease.guard(session)
                yield session
        except LeaseLostError:
            raise
        except MoorageError as exc:
            log.info("container_stays_as_it_is", container_id=container_id, error=exc.code)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        self._next_s = self.clock.monotonic() + EVERY_S

    async def lead(self, lease: Lease) -> None:
        pass

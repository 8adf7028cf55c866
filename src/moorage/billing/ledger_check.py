"""Compares, every hour, the money that is shown with the money that was booked, and the hours with what serves.

Purpose: a difference is seen by the operator, in `/operator/health`, before a customer sees it.
It fixes nothing: which side is right is for a person to say. While there is a difference it looks every minute.
"""

from dataclasses import dataclass, field

import structlog

from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.errors import MoorageError
from moorage.ledger.check_repository import find_differences, find_slots_paid_wrongly
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

EVERY_S = 3600.0
WHILE_IT_DIFFERS_S = 60.0


@dataclass
class LedgerCheck:
    database: Database
    clock: Clock
    name: str = "ledger"
    channels: tuple[str, ...] = ()
    _next_s: float = field(init=False, default=float("-inf"))
    _problem: str | None = field(init=False, default=None)

    async def due(self, limit: int) -> Due:
        if self.clock.monotonic() >= self._next_s:
            await self._check()
        if self._problem is not None:
            raise MoorageError(self._problem)
        return Due([], self._next_s - self.clock.monotonic())

    async def reconcile(self, key: str, lease: Lease) -> None:
        raise AssertionError("nothing is ever due")

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        raise AssertionError("nothing is ever due")

    async def lead(self, lease: Lease) -> None:
        return None

    async def _check(self) -> None:
        async with self.database.reading() as session:
            found = await find_differences(session) + await find_slots_paid_wrongly(session)
        self._problem = None
        if found:
            first = found[0]
            log.error("ledger_differs", findings=len(found), rule=first.rule, subject=first.subject)
            self._problem = (
                f"The ledger differs in {len(found)} places. For {first.subject} it is not true that "
                f"{first.rule} ({first.difference_microusd} microusd)."
            )
        self._next_s = self.clock.monotonic() + (WHILE_IT_DIFFERS_S if found else EVERY_S)

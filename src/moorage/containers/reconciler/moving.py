"""Empties machines that the operator wants empty: a few replicas at a time are to move.

A machine that its owner wants back is emptied at once, and what is still there shortly before its time is over has to go.

It only says which. The next pass of their containers starts others elsewhere, and lets these go once those serve
(`planning/plan.py`). A replica that nothing else has room for stays where it is, and serves on.
"""

from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from moorage.containers.reconciler import moving_repository
from moorage.containers.repository import mark_due
from moorage.containers.states import Reason
from moorage.containers.verdict import Verdict
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

EVERY_S = 5.0
EVICTED_BEFORE = timedelta(seconds=10)
"""The time is over: one look, one pass and a kill."""
_RECLAIMED = Verdict(
    Reason.MACHINE_RECLAIMED,
    "The owner of its machine wanted it back. A new replica takes its place on another machine.",
)


@dataclass
class Moving:
    database: Database
    settings: Settings
    clock: Clock
    _reclaimed: frozenset[str] = field(init=False, default=frozenset())
    """Replicas on machines that their owners want back by now."""

    def why_evicted(self, replica_id: str) -> Verdict | None:
        return _RECLAIMED if replica_id in self._reclaimed else None

    async def run(self, lease: Lease) -> None:
        while True:
            await self.step(lease)
            await self.clock.sleep(EVERY_S)

    async def step(self, lease: Lease) -> None:
        async with self.database.reading() as session:
            moving = await moving_repository.replicas_to_move(session, self.settings.moves_at_once)
            staying = await moving_repository.replicas_that_may_stay(session)
            overdue = await moving_repository.replicas_of_reclaimed(session, EVICTED_BEFORE)
        new = [one for one in overdue if one[0] not in self._reclaimed]
        self._reclaimed = frozenset(replica_id for replica_id, _ in overdue)
        if not moving and not staying and not new:
            return
        async with self.database.transaction() as session:
            await lease.guard(session)
            await moving_repository.change_course(session, moving, staying)
            if new:
                await mark_due(session, sorted({container_id for _, container_id in new}))
        log.info(
            "replicas_move",
            moving=[one for one, _ in moving],
            staying=[one for one, _ in staying],
            evicted=[one for one, _ in new],
        )

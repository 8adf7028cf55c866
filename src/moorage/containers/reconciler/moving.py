"""Empties machines that the operator wants empty: a few replicas at a time are to move.

It only says which. The next pass of their containers starts others elsewhere, and lets these go once those serve
(`plan.py`). A replica that nothing else has room for stays where it is, and serves on.
"""

from dataclasses import dataclass

import structlog

from moorage.containers.reconciler import moving_repository
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.reconcile.lease import Lease

log = structlog.get_logger()

EVERY_S = 5.0


@dataclass
class Moving:
    database: Database
    settings: Settings
    clock: Clock

    async def run(self, lease: Lease) -> None:
        while True:
            await self.step(lease)
            await self.clock.sleep(EVERY_S)

    async def step(self, lease: Lease) -> None:
        async with self.database.reading() as session:
            moving = await moving_repository.replicas_to_move(session, self.settings.moves_at_once)
            staying = await moving_repository.replicas_that_may_stay(session)
        if not moving and not staying:
            return
        async with self.database.transaction() as session:
            await lease.guard(session)
            await moving_repository.change_course(session, moving, staying)
        log.info("replicas_move", moving=[one for one, _ in moving], staying=[one for one, _ in staying])

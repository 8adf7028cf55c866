"""The capsules reconciler.

Purpose: every replica that ended badly leaves a capsule, once its logs are in.
Invariants: one for each, written under the lease and never changed.
When it fails: that replica's is tried again in a while, the others go on.
"""

from dataclasses import dataclass, field

from moorage.containers.channels import COLLECTED
from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease
from moorage.telemetry.capsules import repository

RETRY_S = 30.0


@dataclass
class CapsuleWriter:
    database: Database
    clock: Clock
    name: str = "capsules"
    channels: tuple[str, ...] = (COLLECTED,)
    _not_before_s: dict[str, float] = field(init=False, default_factory=dict)

    async def due(self, limit: int) -> Due:
        now_s = self.clock.monotonic()
        self._not_before_s = {key: at_s for key, at_s in self._not_before_s.items() if at_s > now_s}
        async with self.database.reading() as session:
            found = await repository.list_unwritten(session, limit + len(self._not_before_s))
        next_in_s = min((at_s - now_s for at_s in self._not_before_s.values()), default=None)
        return Due([key for key in found if key not in self._not_before_s][:limit], next_in_s)

    async def reconcile(self, key: str, lease: Lease) -> None:
        async with self.database.transaction() as session:
            await lease.guard(session)
            await repository.write_capsule(session, key)

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        self._not_before_s[key] = self.clock.monotonic() + RETRY_S

    async def lead(self, lease: Lease) -> None:
        return None

"""The earnings reconciler: hours that are over are settled, and what owners of machines earned is looked at again.

Purpose: each second that gateways saw a community machine serve, in an hour that somebody else paid for, is paid to its owner
once. Invariants: an hour is settled once; what it earns is never more than the share of its price; nothing becomes payable that
was not looked at when its time of waiting was over.
When it fails: an hour is one transaction, and so is a look, so a death leaves each either done or due. What raises is tried
again after a pause, and the others go on.
"""

from dataclasses import dataclass, field

from moorage.billing.clock_jumps import ClockJumps
from moorage.billing.earnings import repository
from moorage.billing.earnings.service import look_at_earning, settle_hour
from moorage.kit.clock import Clock
from moorage.kit.database import Database, database_now
from moorage.kit.settings import Settings
from moorage.machines.channels import MACHINE_VOIDS
from moorage.reconcile.driver import Due
from moorage.reconcile.lease import Lease

PAUSE_AFTER_FAILURE_S = 30.0
OTHERS = "others"
"""Hours in which nobody's machine served, all of them."""


@dataclass
class EarningsReconciler:
    database: Database
    settings: Settings
    clock: Clock
    name: str = "earnings"
    channels: tuple[str, ...] = (repository.EARNINGS, MACHINE_VOIDS)
    _jumps: ClockJumps = field(init=False)
    _postponed: dict[str, float] = field(init=False, default_factory=dict)
    """Key → when, on the monotonic clock, it is tried again."""

    def __post_init__(self) -> None:
        self._jumps = ClockJumps(self.clock)

    async def due(self, limit: int) -> Due:
        now_s = self.clock.monotonic()
        self._postponed = {key: at_s for key, at_s in self._postponed.items() if at_s > now_s}
        async with self.database.reading() as session:
            self._jumps.refuse(await database_now(session), "Nothing that owners earned becomes payable")
            # What is postponed takes nobody's place.
            work = await repository.due_work(session, limit + len(self._postponed))
        keys = [
            *([OTHERS] if work.others_are_over else []),
            *(f"void {machine_id}" for machine_id in work.voided_machines),
            *(f"hour {hour_id}" for hour_id in work.hour_ids),
            *(f"look {hour_id} {replica_id}" for hour_id, replica_id in work.earnings),
        ]
        ready = [key for key in keys if key not in self._postponed]
        waits = [at_s - now_s for at_s in self._postponed.values()]
        waits += [work.next_in_s] if work.next_in_s is not None else []
        return Due(ready[:limit], min(waits, default=None))

    async def reconcile(self, key: str, lease: Lease) -> None:
        what, *about = key.split(" ")
        async with self.database.transaction() as session:
            await lease.guard(session)
            if what == OTHERS:
                await repository.settle_others(session)
            elif what == "void":
                await repository.hear_voids(session, about[0])
            elif what == "hour":
                await settle_hour(session, self.settings, about[0])
            else:
                await look_at_earning(session, about[0], about[1])

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        self._postponed[key] = self.clock.monotonic() + PAUSE_AFTER_FAILURE_S

    async def lead(self, lease: Lease) -> None:
        self._jumps.forget()

"""Mistakes about who leads."""

from typing import Any

from moorage.reconcile import driver, lease
from tests.simulation.planted.bug import Bug, Patch, nothing


def _leases_are_never_taken_over(patch: Patch) -> None:
    acquire = lease.LeaseKeeper.acquire

    async def once(keeper: Any) -> Any:
        found = await acquire(keeper)
        return found if found is None or found.token == 1 else None

    patch(lease.LeaseKeeper, "acquire", once)


def _a_lost_lease_ends_the_driver(patch: Patch) -> None:
    async def run(self: Any) -> None:
        keeper = lease.LeaseKeeper(self.database, self.reconciler.name, self.holder, self.clock)
        held = await keeper.acquire()
        if held is not None:
            await self._lead_until_lost(keeper, held)

    patch(driver.Driver, "run", run)


def _leases_are_not_looked_at(patch: Patch) -> None:
    """Who was stopped for long goes on as if nothing had been."""
    patch(lease.Lease, "check", lambda _: None)
    patch(lease.Lease, "guard", nothing)


def _overtaken_and_unaware(patch: Patch) -> None:
    """A renewal that finds another's token counts as one that went well."""

    async def renewed(keeper: Any, held: Any) -> bool:
        await renew(keeper, held)
        return True

    renew = lease.LeaseKeeper._renew
    patch(lease.LeaseKeeper, "_renew", renewed)
    patch(lease.Lease, "check", lambda _: None)
    patch(lease.Lease, "guard", nothing)


BUGS = (
    Bug(
        "leases are never taken over",
        ("what serves is paid",),
        _leases_are_never_taken_over,
        needs=("kill the controller", "controller away"),
    ),
    Bug(
        "a lost lease ends the driver",
        ("what serves is paid", "everything has a way out"),
        _a_lost_lease_ends_the_driver,
        needs=("kill the controller", "controller away", "a leader stops at work"),
    ),
    Bug(
        "leases are not looked at",
        ("no engine call without a lease",),
        _leases_are_not_looked_at,
        needs=("a leader stops at work",),
    ),
    Bug(
        "whoever is overtaken does not see it",
        ("no engine call without a lease",),
        _overtaken_and_unaware,
        needs=("a leader stops at work", "stop the controller"),
    ),
)

"""How often the product looks by itself, made slower.

Nearly everything that happens in Moorage is caused by a notification or a due time; the rest are looks "in case a hint
was lost", many a second. They would be most of what a simulated hour costs and find nothing. Their order of size is
kept: looks are shorter than leases, leases shorter than the lead of a renewal, that shorter than an hour.
"""

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from sqlalchemy import func

from moorage.autoscaling.sleep import idle
from moorage.autoscaling.sleep import reconciler as sleep_reconciler
from moorage.containers.reconciler import disk_watch, gpu_watch, sweep
from moorage.entrypoints import fleet
from moorage.gateway import agent, samples
from moorage.gateway.holding import records
from moorage.reconcile import driver, lease
from moorage.telemetry.logs import collector
from moorage.telemetry.metrics import repository as metrics_repository

LEASE_S = 40.0
_SLOWER: tuple[tuple[Any, str, float], ...] = (
    (lease, "LEASE_S", LEASE_S),
    (lease, "RENEW_EVERY_S", 18.0),
    (driver, "RENEW_EVERY_S", 60.0),  # Half of it: how often somebody who does not lead asks.
    (driver, "ASK_AGAIN_AT_THE_LATEST_S", 25.0),
    (driver, "REPORT_EVERY_S", 120.0),
    (driver, "REPORT_LATE_AFTER_S", 240.0),
    (agent, "COMPARE_EVERY_S", 15.0),
    (agent, "REPORT_ALL_EVERY_S", 60.0),
    (agent, "DRAIN_POLL_S", 1.0),
    (sweep, "SWEEP_EVERY_S", 45.0),
    (disk_watch, "EVERY_S", 60.0),
    (collector, "LOOK_AT_LEAST_EVERY_S", 30.0),
    (collector, "BUDGETS_EVERY_S", 600.0),
    (collector, "STORAGE_EVERY_S", 3600.0),
)
GPUS_EVERY_S = 15.0
"""Only in an afternoon: on days there are no GPUs, and each look less would change every story that is kept."""

FLEET_EVERY_S = 15.0
"""Only in an evening."""

REPORTS_CONTINUE_S, SAMPLES_EVERY_S = 20.0, 6.0
_WITH_SLEEP: tuple[tuple[Any, str, Any], ...] = (
    (samples, "EVERY_S", SAMPLES_EVERY_S),
    (samples, "CONTINUES_WITHIN", timedelta(seconds=REPORTS_CONTINUE_S)),
    (metrics_repository, "CONTINUES_WITHIN", timedelta(seconds=REPORTS_CONTINUE_S)),
    (idle, "SILENT_AFTER", timedelta(seconds=REPORTS_CONTINUE_S)),
    (sleep_reconciler, "EVERY_S", 8.0),
    (records, "STORE_EVERY_S", 5.0),
)
"""Only in a night."""


@contextlib.contextmanager
def slower(leases: list[lease.Lease]) -> Iterator[None]:
    """`leases` fills with those that are taken: whoever skips time has to prolong them."""
    changes = [*_SLOWER]
    acquire = lease.LeaseKeeper.acquire

    async def acquire_and_note(keeper: lease.LeaseKeeper) -> lease.Lease | None:
        acquired = await acquire(keeper)
        if acquired is not None:
            leases.append(acquired)
        return acquired

    changes.append((lease.LeaseKeeper, "acquire", acquire_and_note))
    in_a_lease = func.clock_timestamp() + timedelta(seconds=LEASE_S)
    renew = lease._leases.update().where(lease._ours).values(expires_at=in_a_lease)
    changes += [
        (lease, "_IN_A_LEASE", in_a_lease),
        (lease, "_RENEW", renew.returning(lease._leases.c.token)),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    before.append((gpu_watch, "EVERY_S", gpu_watch.EVERY_S))
    before.append((fleet, "LOOK_EVERY_S", fleet.LOOK_EVERY_S))
    before += [(module, name, getattr(module, name)) for module, name, _ in _WITH_SLEEP]
    try:
        for module, name, value in changes:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def slower_with_gpus() -> None:
    """Until the seed ends."""
    gpu_watch.EVERY_S = GPUS_EVERY_S


def slower_with_a_fleet() -> None:
    """Until the seed ends. Still often enough to see that a machine is silent for as long as makes it lost."""
    fleet.LOOK_EVERY_S = FLEET_EVERY_S


def slower_with_sleep() -> None:
    """Until the seed ends. A gateway reports often enough not to seem silent, and what is silent is so sooner than anybody is idle."""
    for module, name, value in _WITH_SLEEP:
        setattr(module, name, value)

"""Runs reconcilers: one leader at a time, many objects side by side, none of them in another's way.

A reconciler takes no input. It says which objects are *due* and makes one of them true; the driver decides
when to ask (a NOTIFY, the moment the next object is due, or a timer in case a hint was lost) and how many
run at once. An object that fails is postponed by its reconciler, with backoff, and the others go on. Losing
the lease cancels everything under way: the next leader starts from what is in Postgres and in the engine.

To add a reconciler: implement `Reconciler`, list it in `entrypoints/reconcilers.py`. Nothing else.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from moorage.kit.clock import Clock
from moorage.kit.database import Database, Listener
from moorage.kit.errors import LeaseLostError
from moorage.kit.lasting import run_for_good
from moorage.kit.permission import permitted_by
from moorage.kit.tracing import span
from moorage.reconcile.lease import RENEW_EVERY_S, Lease, LeaseKeeper
from moorage.reconcile.status import record_run

log = structlog.get_logger()

MAX_OBJECTS_AT_ONCE = 32
ASK_AGAIN_AT_THE_LATEST_S = 5.0
RESTART_AFTER_S = 1.0
REPORT_EVERY_S = 2.0
REPORT_LATE_AFTER_S = 10.0
"""Rounds come by the hundred while something deploys; their status need not."""


@dataclass(frozen=True)
class Due:
    keys: Sequence[str]
    """Objects to reconcile now, most urgent first."""
    next_in_s: float | None
    """When the next one will be due; None if only a change can make one so."""


class Reconciler(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def channels(self) -> tuple[str, ...]:
        """Notifications after which it is worth asking what is due."""
        ...

    async def due(self, limit: int) -> Due: ...

    async def reconcile(self, key: str, lease: Lease) -> None:
        """One pass over one object. Idempotent; may be cancelled at any await."""
        ...

    async def postpone(self, key: str, error: Exception, lease: Lease) -> None:
        """A pass failed: put the object off, further each time."""
        ...

    async def lead(self, lease: Lease) -> None:
        """Runs for as long as we lead, beside the passes; for what must be watched. May just return."""
        ...


@dataclass
class Driver:
    reconciler: Reconciler
    database: Database
    listener: Listener
    holder: str
    clock: Clock
    _wake: asyncio.Event = field(init=False)
    _asked: dict[str, None] = field(init=False, default_factory=dict)
    """Objects that want a pass, whatever Postgres says is due, in the order in which they asked. Lost with the process, like
    any hint."""
    _leads: bool = field(init=False, default=False)
    _running: dict[str, asyncio.Task[None]] = field(init=False, default_factory=dict)
    _failing: set[str] = field(init=False, default_factory=set)
    _reported: tuple[float, str | None, int] = field(init=False, default=(float("-inf"), None, 0))

    def __post_init__(self) -> None:
        self._wake = self.listener.subscribe(*self.reconciler.channels)

    def ask(self, key: str) -> None:
        """A pass over this object, without a question to Postgres; for an empty name, ask it what is due. Whoever does not
        lead makes no passes, and asks Postgres when it does."""
        if key and self._leads:
            self._asked.setdefault(key)
        self._wake.set()

    async def run(self) -> None:
        """Lead whenever nobody else does, until cancelled: whatever else happens, it begins anew."""
        keeper = LeaseKeeper(self.database, self.reconciler.name, self.holder, self.clock)
        while True:
            try:
                lease = await keeper.acquire()
            except Exception as exc:  # noqa: BLE001 - whatever ails the database, the answer is to try again
                log.warning("lease_not_acquired", reconciler=self.reconciler.name, error=repr(exc))
                lease = None
            if lease is None:
                await self.clock.sleep(RENEW_EVERY_S / 2)
                continue
            log.info("lease_acquired", reconciler=self.reconciler.name, token=lease.token)
            await self._lead_until_lost(keeper, lease)

    async def _lead_until_lost(self, keeper: LeaseKeeper, lease: Lease) -> None:
        """Returns when the lease is lost or something of ours broke: `run` begins anew. Raises only when cancelled."""
        self._running.clear()
        self._asked.clear()
        self._failing.clear()
        self._leads = True
        self._wake.set()
        try:
            with permitted_by(lease.check):
                await run_for_good(
                    {
                        "lease": keeper.keep(lease),
                        "watch": self._watch(lease),
                        "passes": self._dispatch(lease),
                    }
                )
        except* LeaseLostError as lost:
            log.warning("lease_lost", reconciler=self.reconciler.name, error=repr(lost.exceptions[0]))
        except* Exception as broken:
            log.exception("driver_failed", reconciler=self.reconciler.name, error=repr(broken.exceptions[0]))
            await self.clock.sleep(RESTART_AFTER_S)
        finally:
            self._leads = False
            self._asked.clear()
            self._failing.clear()
            await self._give_back(keeper, lease)

    async def _give_back(self, keeper: LeaseKeeper, lease: Lease) -> None:
        """The next leader need not wait; with a lease that is lost already it does nothing."""
        try:
            # Not `wait_for`: before Python 3.12 it can lose a cancellation, and then nothing would ever stop us.
            async with asyncio.timeout(2):
                await keeper.release(lease)
        except Exception as exc:  # noqa: BLE001 - a stop must not hang on a database that is gone already
            log.warning("lease_not_given_back", reconciler=self.reconciler.name, error=repr(exc))

    async def _watch(self, lease: Lease) -> None:
        """The reconciler's own watch; restarted when it fails, because passes do not depend on it."""
        while True:
            try:
                await self.reconciler.lead(lease)
                break
            except* LeaseLostError:
                raise
            except* Exception as broken:  # noqa: BLE001 - reported, and tried again
                log.warning("watch_failed", reconciler=self.reconciler.name, error=repr(broken.exceptions[0]))
            await self.clock.sleep(RESTART_AFTER_S)
        await asyncio.Event().wait()  # There is nothing to watch.

    async def _dispatch(self, lease: Lease) -> None:
        async with asyncio.TaskGroup() as group:
            await self._begin_what_is_due(lease, group)

    async def _begin_what_is_due(self, lease: Lease, group: asyncio.TaskGroup) -> None:
        while True:
            self._wake.clear()
            wait_s = ASK_AGAIN_AT_THE_LATEST_S
            self._begin(list(self._asked), lease, group)
            try:
                # One whose pass ends while this is asked may be named although it is done; its end asks again.
                under_way = set(self._running)
                due = await self.reconciler.due(MAX_OBJECTS_AT_ONCE + len(under_way))
                self._begin([key for key in due.keys if key not in under_way], lease, group)
                if due.next_in_s is not None:
                    wait_s = min(wait_s, max(due.next_in_s, 0.005))
                await self._report(lease, error=None)
            except LeaseLostError:
                raise
            except Exception as exc:  # noqa: BLE001 - reported; the next round tries again
                log.warning("reconciler_failed", reconciler=self.reconciler.name, error=repr(exc))
                await self._report(lease, error=repr(exc))
                wait_s = 1.0
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    def _begin(self, keys: Sequence[str], lease: Lease, group: asyncio.TaskGroup) -> None:
        for key in keys:
            if key not in self._running and len(self._running) < MAX_OBJECTS_AT_ONCE:
                # Whoever asks from here on wants another pass: this one may not see why.
                self._asked.pop(key, None)
                self._running[key] = group.create_task(self._reconcile_one(key, lease))

    async def _reconcile_one(self, key: str, lease: Lease) -> None:
        try:
            with span("reconcile", reconciler=self.reconciler.name, key=key):
                await self.reconciler.reconcile(key, lease)
            self._failing.discard(key)
        except LeaseLostError:
            raise
        except Exception as exc:
            self._failing.add(key)
            log.exception("reconcile_failed", reconciler=self.reconciler.name, key=key)
            await self._postpone(key, exc, lease)
        finally:
            del self._running[key]
            self._wake.set()

    async def _postpone(self, key: str, error: Exception, lease: Lease) -> None:
        try:
            await self.reconciler.postpone(key, error, lease)
        except LeaseLostError:
            raise
        except Exception as exc:  # noqa: BLE001 - then it stays due, and the pause is ours to make
            log.warning("postpone_failed", reconciler=self.reconciler.name, key=key, error=repr(exc))
            await self.clock.sleep(1.0)

    async def _report(self, lease: Lease, error: str | None) -> None:
        now_s, (reported_at_s, *reported) = self.clock.monotonic(), self._reported
        age_s = now_s - reported_at_s
        if age_s < REPORT_EVERY_S and reported == [error, len(self._failing)]:
            return
        if self._running and age_s < REPORT_LATE_AFTER_S:
            return  # The work comes first; a round follows as soon as a pass ends.
        self._reported = (now_s, error, len(self._failing))
        try:
            await record_run(self.database, lease, self.holder, error, len(self._failing))
        except LeaseLostError:
            raise
        except Exception as exc:  # noqa: BLE001 - a status that cannot be written shows by its age
            log.warning("status_not_recorded", reconciler=self.reconciler.name, error=repr(exc))

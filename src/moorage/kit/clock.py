"""The only place that reads a clock.

Pure code takes `now` as an argument; everything else is handed a `Clock`, so that a test or the
simulation can decide what time it is. Money and leases use the database's time, not this one.
"""

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


def processor_time_s() -> float:
    """That the thread which asks has used; waiting, for the disk or for its turn, does not count."""
    return time.thread_time()


def processor_time_of_thread_s(thread_id: int) -> float:
    """That another thread of this process has used."""
    return time.clock_gettime(time.pthread_getcpuclockid(thread_id))


class Clock(Protocol):
    def now(self) -> datetime:
        """Wall time, aware and in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow, also while the process is stopped or the machine sleeps; for deadlines and
        durations."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        # Not `time.monotonic`, which stands still while the machine sleeps: a lease that ran out meanwhile would seem valid.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class VirtualClock:
    """Time that stands still until `advance` moves it; sleepers wake in order of their wake-up time."""

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._elapsed_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed_s)

    def monotonic(self) -> float:
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed_s + seconds, next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Move time forward, letting everything that wakes on the way run at its own moment."""
        target_s = self._elapsed_s + seconds
        while self._sleepers and self._sleepers[0][0] <= target_s:
            wake_at_s, _, woken = heapq.heappop(self._sleepers)
            self._elapsed_s = wake_at_s
            if not woken.done():
                woken.set_result(None)
            await _let_others_run()
        self._elapsed_s = target_s
        await _let_others_run()


async def _let_others_run() -> None:
    # A handful of loop turns: enough for a woken task to reach its next await.
    for _ in range(10):
        await asyncio.sleep(0)


system_clock = SystemClock()

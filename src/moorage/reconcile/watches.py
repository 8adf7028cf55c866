"""Runs what a leader watches beside its passes. One that fails begins again by itself, in nobody's way."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping

import structlog

from moorage.kit.clock import Clock
from moorage.kit.errors import LeaseLostError

log = structlog.get_logger()

PAUSE_AFTER_FAILURE_S = 1.0

Watches = Mapping[str, Callable[[], Awaitable[None]]]


class Pauses:
    """Between the rounds of watches, by name: each pause ends when its time is over, or when somebody cuts it short."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cut_short: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def begin_round(self, name: str) -> None:
        """From here on, whoever cuts the pause short wants another round."""
        self._cut_short[name].clear()

    def cut_short(self, name: str) -> None:
        self._cut_short[name].set()

    async def rest(self, name: str, for_s: float) -> None:
        waits = [
            asyncio.ensure_future(self._cut_short[name].wait()),
            asyncio.ensure_future(self._clock.sleep(for_s)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


async def run_watches(watches: Watches, clock: Clock) -> None:
    """Until the lease is lost."""
    async with asyncio.TaskGroup() as group:
        for name, watch in watches.items():
            group.create_task(again_and_again(name, watch, clock), name=f"watch {name}")


async def again_and_again(
    name: str, watch: Callable[[], Awaitable[None]], clock: Clock, **context: str
) -> None:
    while True:
        try:
            await watch()
        except LeaseLostError:
            raise
        except Exception as exc:  # noqa: BLE001 - told, and tried again: the others and all operations go on
            log.warning("watch_failed", watch=name, error=repr(exc), **context)
        await clock.sleep(PAUSE_AFTER_FAILURE_S)

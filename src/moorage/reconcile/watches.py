"""Runs what a leader watches beside its passes. One that fails begins again by itself, in nobody's way."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog

from moorage.kit.clock import Clock
from moorage.kit.errors import LeaseLostError

log = structlog.get_logger()

PAUSE_AFTER_FAILURE_S = 1.0

Watches = Mapping[str, Callable[[], Awaitable[None]]]


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

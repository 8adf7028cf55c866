"""Work that is to go on for as long as its process: watches, listeners, readers, drivers, side by side.

A TaskGroup says nothing when one of its tasks just ends, or is cancelled by something inside itself: the process lives, and
what the task did is done no more. Here whichever ends first ends all, and whoever waits hears why.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NoReturn

import structlog

log = structlog.get_logger()


class EndedError(RuntimeError):
    """Lasting work came to an end that nobody asked for."""


async def run_for_good(work: Mapping[str, Coroutine[Any, Any, object]]) -> NoReturn:
    """Until cancelled, or until one of them ends, in whatever way: then the others are cancelled, and a group is raised with
    what went wrong. Being cancelled is told from that by who is: never by counting cancellations, which a TaskGroup of
    Python 3.11 leaves one too high when a child of it fails."""
    tasks = [asyncio.create_task(one, name=name) for name, one in work.items()]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        # Before the others are cancelled, which would look the same.
        ended = [_ended(task) for task in done if task.cancelled() or task.exception() is None]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    broken = [error for task in tasks if not task.cancelled() and (error := task.exception()) is not None]
    raise BaseExceptionGroup("lasting work ended", [*broken, *ended])


async def look_for_good(
    name: str, look: Callable[[], Awaitable[None]], every_s: float, changed: asyncio.Event
) -> NoReturn:
    """Whenever something changed, and now and then. A look that fails, because the database is away perhaps, is told and made
    again: the role that it is a part of goes on."""
    while True:
        changed.clear()
        try:
            await look()
        except Exception as exc:  # noqa: BLE001 - told, and looked again
            log.warning("look_failed", of=name, error=repr(exc))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(every_s):
                await changed.wait()


def _ended(task: asyncio.Task[object]) -> EndedError:
    how = "was cancelled from within" if task.cancelled() else "returned"
    return EndedError(f"{task.get_name()} {how}, although it is to go on for good.")

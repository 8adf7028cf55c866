"""Engine calls that outlast a pass: pulls, starts, stops, removals.

At most one for each replica (and one pull for each container) at a time. An operation writes nothing that
the next pass could see for itself by looking at the engine; it ends by asking for that pass. What a crash
interrupts is therefore simply done again.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError, LeaseLostError

log = structlog.get_logger()

MAX_AT_ONCE = 8
LONGEST_PAUSE_S = 30.0


class Operations:
    def __init__(self, clock: Clock, ask: Callable[[str], None]) -> None:
        self._clock = clock
        self._ask = ask
        self._running: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, int] = {}
        self._engine_failing: set[str] = set()
        self._slots = asyncio.Semaphore(MAX_AT_ONCE)

    def busy(self, key: str) -> bool:
        return key in self._running

    def engine_failing(self, key: str) -> bool:
        """Whether the engine itself was at fault the last time."""
        return key in self._engine_failing

    def begin(
        self, key: str, container_id: str, work: Callable[[], Awaitable[None]], *, unbounded: bool = False
    ) -> None:
        """Run `work` unless one for this key is under way. A pull is unbounded: it mostly waits."""
        if key not in self._running:
            task = asyncio.create_task(self._run(key, container_id, work, unbounded), name=f"operation {key}")
            self._running[key] = task

    async def cancel_all(self) -> None:
        """We lead no longer: let go of everything."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._running.clear()
        self._failures.clear()
        self._engine_failing.clear()

    async def _run(
        self, key: str, container_id: str, work: Callable[[], Awaitable[None]], unbounded: bool
    ) -> None:
        try:
            if unbounded:
                await work()
            else:
                async with self._slots:
                    await work()
            self._failures.pop(key, None)
            self._engine_failing.discard(key)
        except LeaseLostError:
            return
        except Exception as exc:  # noqa: BLE001 - logged; the pause keeps a broken engine from being hammered
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            pause_s = min(2.0 ** (failures - 1), LONGEST_PAUSE_S)
            if isinstance(exc, EngineError):
                self._engine_failing.add(key)
            log.warning(
                "operation_failed", key=key, container_id=container_id, error=repr(exc), pause_s=pause_s
            )
            await self._clock.sleep(pause_s)
        finally:
            self._running.pop(key, None)
        self._ask(container_id)

"""Engine calls that outlast a pass: pulls, starts, stops, removals.

At most one for each replica (and one pull for each container) at a time; how many at once, and whose is next, is in
`places.py`. An operation writes nothing that the next pass could see for itself by looking at the engine; it ends by
asking for that pass. What a crash interrupts is therefore simply done again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

import structlog

from moorage.containers.reconciler.places import Places, Ticket, shares_on
from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError, LeaseLostError

log = structlog.get_logger()

LONGEST_PAUSE_S = 30.0


@dataclass(frozen=True)
class Operation:
    ticket: Ticket
    container_id: str
    work: Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class _Failure:
    count: int
    """In a row."""
    of_the_engine: bool


class Operations:
    def __init__(self, clock: Clock, ask: Callable[[str], None]) -> None:
        self._clock = clock
        self._ask = ask
        self._places: dict[str, Places] = {}
        """By engine, so that a slow machine holds up no other."""
        self._waiting: dict[str, Operation] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, dict[str, _Failure]] = {}
        """By container and key: what failed the last time."""

    def fit_to(self, engine: str, cores: int) -> None:
        """The machine has so many: until that is known, it is taken for the smallest."""
        self._places_of(engine).shares = shares_on(cores)

    def _places_of(self, engine: str) -> Places:
        return self._places.setdefault(engine, Places(shares_on(cores=1)))

    def busy(self, key: str) -> bool:
        return key in self._running or key in self._waiting

    def busy_keys(self) -> frozenset[str]:
        """All for which something is under way now, or waits for its place."""
        return frozenset({*self._running, *self._waiting})

    def under_way(self) -> list[asyncio.Task[None]]:
        return list(self._running.values())

    def engine_failing(self, container_id: str) -> bool:
        """Whether for something of it the engine itself was at fault the last time."""
        return any(failure.of_the_engine for failure in self._failures.get(container_id, {}).values())

    def begin(self, ticket: Ticket, container_id: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do `work` as soon as there is a place for it, unless something for this key is under way."""
        if not self.busy(ticket.key):
            self._waiting[ticket.key] = Operation(ticket, container_id, work)
            self._places_of(ticket.engine).ask(ticket)
            self._run_granted(ticket)

    def keep_only(self, container_id: str, keys: Collection[str]) -> None:
        """Of what failed for a container; nothing more will be done for the others."""
        kept = {key: failure for key, failure in self._failures.pop(container_id, {}).items() if key in keys}
        if kept:
            self._failures[container_id] = kept

    async def cancel_all(self) -> None:
        """We lead no longer: let go of everything. Also when we are cancelled meanwhile: that ends the waiting no sooner."""
        self._waiting.clear()
        self._clear_places()
        tasks = self.under_way()
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self._clear_places()  # What ended meanwhile gave places back that were no longer taken.
            self._running.clear()
            self._failures.clear()

    def _clear_places(self) -> None:
        for places in self._places.values():
            places.clear()

    def _run_granted(self, like: Ticket) -> None:
        for ticket in self._places_of(like.engine).grant(like.kind):
            operation = self._waiting.pop(ticket.key)
            name = f"{ticket.kind} {ticket.key}"
            self._running[ticket.key] = asyncio.create_task(self._run(operation), name=name)

    async def _run(self, operation: Operation) -> None:
        key, container_id = operation.ticket.key, operation.container_id
        try:
            await self._in_its_place(operation)
            self._forget(key, container_id)
        except LeaseLostError:
            return
        except Exception as exc:  # noqa: BLE001 - logged; the pause keeps a broken engine from being hammered
            pause_s = self._pause_after(key, container_id, exc)
            log.warning(
                "operation_failed", key=key, container_id=container_id, error=repr(exc), pause_s=pause_s
            )
            await self._clock.sleep(pause_s)
        finally:
            self._running.pop(key, None)
        self._ask(container_id)

    def _pause_after(self, key: str, container_id: str, error: Exception) -> float:
        """1 s, doubling to 30 s."""
        failures = self._failures.setdefault(container_id, {})
        before = failures.get(key, _Failure(0, of_the_engine=False))
        of_the_engine = before.of_the_engine or isinstance(error, EngineError)
        failures[key] = _Failure(before.count + 1, of_the_engine)
        # Counted on for as long as it fails, which may be for weeks: a power of that is no number any more.
        return LONGEST_PAUSE_S if before.count > 10 else min(2.0**before.count, LONGEST_PAUSE_S)

    def _forget(self, key: str, container_id: str) -> None:
        failures = self._failures.get(container_id, {})
        failures.pop(key, None)
        if not failures:
            self._failures.pop(container_id, None)

    async def _in_its_place(self, operation: Operation) -> None:
        try:
            await operation.work()
        finally:
            self._places_of(operation.ticket.engine).give_back(operation.ticket)
            self._run_granted(operation.ticket)

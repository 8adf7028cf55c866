"""Whose request computes next on the thread that serves everybody: no client has more of its time than a share.

A request costs that thread a few milliseconds, a refused one not much less, so whoever sends hundreds would stand in front
of everybody. Here a client has a few requests begun at a time, and the others of it wait, which costs nothing. While
somebody else asks as well, it also waits until what it used of the thread is within its share; alone it may have all of
it. A request that lasts is one that waits for something else, and no longer counts.
"""

import asyncio
import types
from collections import OrderedDict
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from typing import Any

from moorage.kit.clock import Clock, processor_time_s
from moorage.kit.errors import UnavailableError
from moorage.kit.fair_slots import FairSlots

BEGUN_AT_ONCE = 64
BEGUN_AT_ONCE_PER_CLIENT = 3
MOST_WAITING = 100
"""Requests of one client."""
WAIT_S = 10.0
COMPUTES_S = 0.25
"""For so long a request counts as one that computes."""
ALLOWANCE_S = 0.1
"""That a client may use at once: a page of the console is twenty requests."""
FIRST_COSTS_S = 0.005
_SMOOTHING = 0.2
OTHERS_WITHIN_S = 5.0
_MOST_CLIENTS = 10_000


@dataclass
class _Use:
    level_s: float
    """What it used beyond its share; it goes down by the share of each second."""
    at_s: float
    asked_at_s: float
    costs_s: float = FIRST_COSTS_S
    """Each of its requests, as a rule: so much is counted when one begins, and put right when it has ended."""


class Turns:
    def __init__(self, share_percent: int, clock: Clock) -> None:
        self._share = share_percent / 100
        self._clock = clock
        self._begun = FairSlots(BEGUN_AT_ONCE, BEGUN_AT_ONCE_PER_CLIENT, MOST_WAITING, WAIT_S)
        self._uses: OrderedDict[str, _Use] = OrderedDict()
        """Who asked last is at the end."""

    async def run(self, client: str, work: Coroutine[Any, Any, None]) -> None:
        """Raises TooManyRequestsError or UnavailableError where it is not begun."""
        try:
            use = self._asks(client)
            await self._begun.take(client)
        except BaseException:
            work.close()
            raise
        place: _Place | None = None
        try:
            try:
                await self._is_within_share(client, use)
            except BaseException:
                work.close()
                raise
            place = _Place(self._begun, client)
            await _measured(work, self, use)
        finally:
            if place is None:
                self._begun.give_back(client)
            else:
                place.give_back()

    def used(self, use: _Use, spent_s: float) -> None:
        self._settle(use)
        use.level_s = max(0.0, use.level_s + spent_s)

    def others_ask(self, client: str) -> bool:
        """Somebody else asked within the last seconds. Where a client may have all of the thread, nobody else counts."""
        if self._share >= 1:
            return False
        since_s = self._clock.monotonic() - OTHERS_WITHIN_S
        for name in reversed(self._uses):
            if name != client:
                return self._uses[name].asked_at_s > since_s
        return False

    def _asks(self, client: str) -> _Use:
        now_s = self._clock.monotonic()
        use = self._uses.setdefault(client, _Use(0.0, now_s, now_s))
        use.asked_at_s = now_s
        self._uses.move_to_end(client)
        if len(self._uses) > _MOST_CLIENTS:
            self._uses.popitem(last=False)
        return use

    async def _is_within_share(self, client: str, use: _Use) -> None:
        until_s = self._clock.monotonic() + WAIT_S
        while self.others_ask(client):
            self._settle(use)
            if use.level_s <= ALLOWANCE_S:
                break
            if self._clock.monotonic() > until_s:
                message = "Your requests use more than their share of the service. Send fewer at once."
                raise UnavailableError(message, code="busy")
            await self._clock.sleep((use.level_s - ALLOWANCE_S) / self._share)
        use.level_s += use.costs_s

    def _settle(self, use: _Use) -> None:
        now_s = self._clock.monotonic()
        use.level_s = max(0.0, use.level_s - (now_s - use.at_s) * self._share)
        use.at_s = now_s


class _Place:
    """Given back when the request has ended, or has lasted."""

    def __init__(self, slots: FairSlots, client: str) -> None:
        self._slots, self._client, self._held = slots, client, True
        self._timer = asyncio.get_running_loop().call_later(COMPUTES_S, self._give_back)

    def give_back(self) -> None:
        self._timer.cancel()
        self._give_back()

    def _give_back(self) -> None:
        if self._held:
            self._held = False
            self._slots.give_back(self._client)


@types.coroutine
def _measured(work: Coroutine[Any, Any, None], turns: Turns, use: _Use) -> Generator[Any, Any, None]:
    """Does it, and notes what each step of it used of this thread."""
    step, argument, spent_s, counted_s = work.send, None, 0.0, use.costs_s
    while True:
        began_s = processor_time_s()
        try:
            waited_for = step(argument)
        except BaseException as ended:
            spent_s += processor_time_s() - began_s
            use.costs_s += _SMOOTHING * (spent_s - use.costs_s)
            turns.used(use, spent_s - counted_s)
            if isinstance(ended, StopIteration):
                return
            raise
        spent_s += processor_time_s() - began_s
        if spent_s > counted_s:
            turns.used(use, spent_s - counted_s)
            counted_s = spent_s
        try:
            argument = yield waited_for
            step = work.send
        except BaseException as exc:  # noqa: BLE001 - the work decides what becomes of it
            step, argument = work.throw, exc

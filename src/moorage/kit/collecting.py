"""Keeps the collector of cyclic garbage from holding up everything else.

It stops the thread for as long as it takes to look through all objects: tens of milliseconds once a role has loaded its
routes and put its statements together. What outlived a collection that took long stays for good, so later ones need not
look at it; what such objects leave behind is found by their count of references, as ever. Cycles that were alive then and are
dropped later are never found. So it is done ever less often: often while a role warms up, a few dozen times in a year.
"""

import gc
from collections.abc import Callable
from typing import Literal

from moorage.kit.clock import processor_time_s

LONG_S = 0.015
LESS_OFTEN = 2.0
"""So many times the processor time must have been spent before it is done again. An installation grows while it runs: a
controller hears of its thousandth machine long after the first long collection."""


class Collecting:
    """Of one process. `begin` is called when its modules are loaded."""

    def __init__(self, spent_s: Callable[[], float] = processor_time_s) -> None:
        self._spent_s = spent_s
        self._began_s = 0.0
        self._again_at_s = 0.0

    def begin(self) -> None:
        gc.freeze()
        gc.callbacks.append(self._called)

    def end(self) -> None:
        gc.callbacks.remove(self._called)

    def _called(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._began_s = self._spent_s()
            return
        now_s = self._spent_s()
        if now_s - self._began_s > LONG_S and now_s >= self._again_at_s:
            self._again_at_s = now_s * LESS_OFTEN
            gc.freeze()

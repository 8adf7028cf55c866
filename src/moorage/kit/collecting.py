"""Keeps the collector of cyclic garbage from holding up everything else.

It stops the thread for as long as it takes to look through all objects: tens of milliseconds once a role has loaded its
routes and put its statements together. What outlived a collection that took long stays for good, so later ones need not
look at it; what such objects leave behind is found by their count of references, as ever. That is done a few times, while a
role warms up: cycles that were alive then and are dropped later are never found.
"""

import gc
from typing import Literal

from moorage.kit.clock import processor_time_s

LONG_S = 0.015
MOST_TIMES = 3


class Collecting:
    """Of one process. `begin` is called when its modules are loaded."""

    def __init__(self) -> None:
        self._began_s = 0.0
        self._times = 0

    def begin(self) -> None:
        gc.freeze()
        gc.callbacks.append(self._called)

    def end(self) -> None:
        gc.callbacks.remove(self._called)

    def _called(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._began_s = processor_time_s()
        elif self._times < MOST_TIMES and processor_time_s() - self._began_s > LONG_S:
            self._times += 1
            gc.freeze()

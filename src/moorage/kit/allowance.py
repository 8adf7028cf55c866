"""So much in a day for each, all of it at once if they like; what was used comes back evenly.

Of one process, and lost with it: it keeps tables from growing without end, and is no measure of anything.
"""

import math

from moorage.kit.clock import Clock
from moorage.kit.errors import TooManyRequestsError

_DAY_S = 86_400.0
_MOST_NAMES = 10_000
"""Beyond it, those who have used nothing lately are forgotten."""


class Allowance:
    def __init__(self, per_day: int, clock: Clock) -> None:
        self._per_day = per_day
        self._clock = clock
        self._used: dict[str, tuple[float, float]] = {}
        """How much, and when that was so."""

    def take(self, name: str) -> None:
        used = self._used_by(name)
        if used + 1 > self._per_day:
            wait_s = math.ceil((used + 1 - self._per_day) * _DAY_S / self._per_day)
            message = (
                f"You changed something {self._per_day} times within a day. Send changes more slowly, or ask "
                "the operator to raise `changes_per_day`."
            )
            raise TooManyRequestsError(message, retry_after_s=wait_s, code="too_many_changes")
        self._used[name] = (used + 1, self._clock.monotonic())
        if len(self._used) > _MOST_NAMES:
            self._used = {one: kept for one, kept in self._used.items() if self._used_by(one) > 0}

    def _used_by(self, name: str) -> float:
        used, at_s = self._used.get(name, (0.0, 0.0))
        return max(used - (self._clock.monotonic() - at_s) * self._per_day / _DAY_S, 0.0)

"""How often a hub is asked: so often by one person, and not at all for a while once it has had enough. Pure.

Hubs count by address, and an installation has one: what one person uses up is missing for everybody. Of one process, and lost with it.
"""

import math

from moorage.kit.errors import TooManyRequestsError

PER_MINUTE = 30
"""For one asker, all at once if they like; what was used comes back evenly."""
_MOST_ASKERS = 10_000
"""Beyond it, those who have asked nothing lately are forgotten."""


class LookupPace:
    def __init__(self) -> None:
        self._used: dict[str, tuple[float, float]] = {}
        """How many, and when that was so."""
        self._paused_until_s: dict[str, float] = {}
        """By hub, for lookups without a token: with one, a hub counts for whom it belongs to."""

    def take(self, asker: str, now_s: float) -> None:
        used = self._used_by(asker, now_s)
        if used + 1 > PER_MINUTE:
            message = f"You looked up {PER_MINUTE} models within a minute. Try again in a moment."
            wait_s = math.ceil((used + 1 - PER_MINUTE) * 60 / PER_MINUTE)
            raise TooManyRequestsError(message, retry_after_s=wait_s, code="too_many_lookups")
        self._used[asker] = (used + 1, now_s)
        if len(self._used) > _MOST_ASKERS:
            self._used = {one: kept for one, kept in self._used.items() if self._used_by(one, now_s) > 0}

    def pause(self, hub: str, wait_s: int, now_s: float) -> None:
        self._paused_until_s[hub] = max(now_s + wait_s, self._paused_until_s.get(hub, 0.0))

    def pause_left_s(self, hub: str, now_s: float) -> int:
        return max(0, math.ceil(self._paused_until_s.get(hub, 0.0) - now_s))

    def _used_by(self, asker: str, now_s: float) -> float:
        used, at_s = self._used.get(asker, (0.0, 0.0))
        return max(used - (now_s - at_s) * PER_MINUTE / 60, 0.0)

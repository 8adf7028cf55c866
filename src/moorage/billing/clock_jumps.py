"""The database's clock, held to ours: one that jumped would end every hour at once, or let everything be payable."""

from dataclasses import dataclass, field
from datetime import datetime

import structlog

from moorage.kit.clock import Clock
from moorage.kit.errors import UnavailableError

log = structlog.get_logger()

LARGEST_JUMP_S = 300.0
PAUSE_AFTER_JUMP_S = 300.0


@dataclass
class ClockJumps:
    clock: Clock
    _times: tuple[datetime, float] | None = field(init=False, default=None)
    """The database's time and ours, when they were last compared."""
    _paused_until_s: float = field(init=False, default=float("-inf"))

    def forget(self) -> None:
        self._times = None

    def refuse(self, now: datetime, consequence: str) -> None:
        """`now` is the database's. Raises for a while after it jumped, and says what that means."""
        now_s = self.clock.monotonic()
        if self._times is not None:
            jump_s = (now - self._times[0]).total_seconds() - (now_s - self._times[1])
            if abs(jump_s) > LARGEST_JUMP_S:
                log.error("database_clock_jumped", by_s=round(jump_s))
                self._paused_until_s = now_s + PAUSE_AFTER_JUMP_S
        self._times = (now, now_s)
        if now_s < self._paused_until_s:
            raise UnavailableError(
                f"The database's clock jumped. {consequence} for five minutes. Check the clock of the "
                "database's machine."
            )

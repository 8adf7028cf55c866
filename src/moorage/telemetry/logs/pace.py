"""How fast what will not be kept is read.

A flood costs most where it is read: the engine finds every line in its files and sends it, and we take it apart, only
to count it. So what is beyond the allowance is read at this pace and no faster, and the rest waits in the engine's
files, where it costs nobody anything. A flood that ends soon is counted to the line all the same.

A reader that cannot keep up must not go on for ever: the engine exchanges its files under it and leaves whole ones out
without a word. One that began with the present and is too far behind it gives up, and its follower begins again near
the end of the output; that lines are missing is said there, as for any that the engine does not have any longer. One
that began with a past that nobody had read goes on, because after a flood there may be something in it.
"""

from moorage.kit.clock import Clock
from moorage.kit.errors import EngineError

DROPPED_PER_S = 5_000
DROPPED_AT_ONCE = 100_000
"""For long, and at once. A line of more than 1 KiB counts as several."""
BEHIND_S = 5.0
_NANOSECONDS = 1_000_000_000


class FellBehindError(EngineError):
    """The reader is too far behind a flood to catch up with it."""


class Pace:
    """Of one replica; whatever it had to spare is not given again to its next reader."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._paid_until_s = float("-inf")
        self._began_with_the_present: bool | None = None

    def begin(self) -> None:
        """A new reading."""
        self._began_with_the_present = None

    async def keep(self, dropped: int, newest_ns: int) -> None:
        """Called with what was dropped since the last call, and the time of what was read last."""
        behind_s = self._clock.now().timestamp() - newest_ns / _NANOSECONDS
        if self._began_with_the_present is None:
            self._began_with_the_present = behind_s < BEHIND_S
        if not dropped:
            return
        now_s = self._clock.monotonic()
        spared_s = DROPPED_AT_ONCE / DROPPED_PER_S
        self._paid_until_s = max(self._paid_until_s, now_s - spared_s) + dropped / DROPPED_PER_S
        if self._paid_until_s <= now_s:
            return
        if self._began_with_the_present and behind_s > BEHIND_S:
            raise FellBehindError("lines come faster than they are read")
        await self._clock.sleep(self._paid_until_s - now_s)

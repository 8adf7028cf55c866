"""How fast a machine is listened to. What comes faster waits at the machine, where it costs nobody else anything."""

from dataclasses import dataclass, field

from moorage.kit.clock import Clock


@dataclass
class Pace:
    """A bucket that refills, by our clock."""

    clock: Clock
    per_s: float
    at_once: float
    _left: float = field(init=False)
    _filled_at_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._left = self.at_once
        self._filled_at_s = self.clock.monotonic()

    async def take(self, amount: float = 1.0) -> None:
        """Returns when that much may be taken further."""
        now_s = self.clock.monotonic()
        self._left = min(self.at_once, self._left + (now_s - self._filled_at_s) * self.per_s)
        self._filled_at_s = now_s
        self._left -= amount
        if self._left < 0:
            await self.clock.sleep(-self._left / self.per_s)

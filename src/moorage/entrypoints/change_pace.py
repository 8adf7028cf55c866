"""What a client had accepted lately slows its next changes down, while somebody else asks as well.

To take a change costs the API's thread little; what follows (passes of the reconcilers, the gateways, the engine) keeps the
machine busy for everybody. So whoever had many accepted within a moment waits a little before the next one begins.
Nothing is refused for it, and nobody waits long: a stop always comes through.
"""

from collections import Counter, OrderedDict

from moorage.kit.clock import Clock

AT_ONCE = 20
"""Somebody who rolls out all they have, or cleans up."""
PER_S = 2.0
LONGEST_WAIT_S = 2.0
MOST_WAITING = 500
"""Of one client; more of them do not wait: each keeps a connection."""
_MOST_CLIENTS = 10_000


class ChangePace:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._accepted: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """How many that are not forgiven yet, and when that was so. Who changed something last is at the end."""
        self._waiting: Counter[str] = Counter()

    def accepted(self, client: str) -> None:
        self._accepted[client] = (self._level(client) + 1, self._clock.monotonic())
        self._accepted.move_to_end(client)
        if len(self._accepted) > _MOST_CLIENTS:
            self._accepted.popitem(last=False)

    def wait_s(self, client: str) -> float:
        return min(max(self._level(client) - AT_ONCE, 0.0) / PER_S, LONGEST_WAIT_S)

    async def wait(self, client: str) -> None:
        wait_s = self.wait_s(client)
        if wait_s <= 0 or self._waiting[client] >= MOST_WAITING:
            return
        self._waiting[client] += 1
        try:
            await self._clock.sleep(wait_s)
        finally:
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]

    def _level(self, client: str) -> float:
        level, at_s = self._accepted.get(client, (0.0, 0.0))
        return max(level - (self._clock.monotonic() - at_s) * PER_S, 0.0)

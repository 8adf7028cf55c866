"""A number of places that many clients want: each has a share, and those who wait are served in turn.

Whoever has used up its share waits for its own to be free, however many others are; of those who may have one, the
client that was served longest ago is next. Who cannot even wait is told so at once.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from moorage.kit.errors import TooManyRequestsError, UnavailableError


class FairSlots:
    def __init__(self, total: int, share: int, most_waiting: int, wait_s: float) -> None:
        """`share` and `most_waiting` are of one client."""
        assert 0 < share <= total
        self._total = total
        self._share = share
        self._most_waiting = most_waiting
        self._wait_s = wait_s
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """The next client first."""

    def held_by(self, client: str) -> int:
        return self._held[client]

    @property
    def clients(self) -> int:
        """That hold one or wait."""
        return len(self._held.keys() | self._waiting.keys())

    @asynccontextmanager
    async def taken(self, client: str) -> AsyncIterator[None]:
        await self.take(client)
        try:
            yield
        finally:
            self.give_back(client)

    async def take(self, client: str) -> None:
        """To be given back."""
        if client not in self._waiting and self._may_have(client):
            self._held[client] += 1
            return
        queue = self._waiting.setdefault(client, deque())
        if len(queue) >= self._most_waiting:
            message = "Too many of your requests already wait for an answer. Send fewer at once."
            raise TooManyRequestsError(message, retry_after_s=1, code="too_many_at_once")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            async with asyncio.timeout(self._wait_s):
                await turn
        except BaseException as exc:
            if turn.done() and not turn.cancelled():
                self.give_back(client)  # it came just when nobody wanted it any more
            else:
                self._leave(client, turn)
            if isinstance(exc, TimeoutError):
                message = f"The service was too busy for this request for {self._wait_s:.0f} seconds. Send it again later."
                raise UnavailableError(message, code="busy") from exc
            raise

    def give_back(self, client: str) -> None:
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
        self._serve_next()

    def _serve_next(self) -> None:
        for client in list(self._waiting):
            if not self._may_have(client):
                continue
            queue = self._waiting[client]
            while queue and queue[0].done():
                queue.popleft()  # its request was called off, and has not come to leave by itself yet
            if not queue:
                del self._waiting[client]
                continue
            turn = queue.popleft()
            self._held[client] += 1
            if queue:
                self._waiting.move_to_end(client)
            else:
                del self._waiting[client]
            turn.set_result(None)
            return

    def _leave(self, client: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(client)
        if queue is None or turn not in queue:
            return
        queue.remove(turn)
        if not queue:
            del self._waiting[client]

    def _may_have(self, client: str) -> bool:
        return self._held[client] < self._share and self._held.total() < self._total

"""Many who ask the same kind of question at the same time, answered together.

Whoever asks while nobody else does is answered at once. Questions that come while one is being answered, or soon after where a
pause is made, are then one question: so a thousand machines cost the database little more than one, and one costs what it did.

There is no task of its own: whoever's turn it is answers for all who wait, and ends with those who began it.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Generic, TypeVar

from moorage.kit.clock import Clock

KeyT = TypeVar("KeyT", bound=Hashable)
WishT = TypeVar("WishT")
AnswerT = TypeVar("AnswerT")


class Together(Generic[KeyT, WishT, AnswerT]):
    def __init__(
        self,
        answer: Callable[[Mapping[KeyT, WishT]], Awaitable[Mapping[KeyT, AnswerT]]],
        clock: Clock,
        pause_s: Callable[[], float] = lambda: 0.0,
        most: int = 200,
    ) -> None:
        """`answer` has something for every key that it is given; it gets at most so many of them, and begins no sooner than
        `pause_s` after it began the last time."""
        self._answer = answer
        self._clock = clock
        self._pause_s = pause_s
        self._most = most
        self._began_s = -math.inf
        self._waiting: dict[KeyT, tuple[WishT, asyncio.Future[AnswerT]]] = {}
        self._turn = asyncio.Lock()

    async def ask(self, key: KeyT, wish: WishT) -> AnswerT:
        """Raises what `answer` raises. Two who ask under one key at once have one answer, to the later wish."""
        waiting = self._waiting.get(key)
        answer = waiting[1] if waiting is not None else asyncio.get_running_loop().create_future()
        self._waiting[key] = wish, answer
        async with self._turn:
            while not answer.done():
                await self._answer_some(key)
        return answer.result()

    async def _answer_some(self, first: KeyT) -> None:
        left_s = self._began_s + self._pause_s() - self._clock.monotonic()
        if left_s > 0:
            await self._clock.sleep(left_s)
        self._began_s = self._clock.monotonic()
        others = [key for key in self._waiting if key != first][: self._most - 1]
        taken = {key: self._waiting.pop(key) for key in (first, *others)}
        try:
            answers = await self._answer({key: wish for key, (wish, _) in taken.items()})
        except asyncio.CancelledError:
            # Only whoever answered goes away: the next in turn answers the others.
            self._waiting = {**taken, **self._waiting}
            raise
        except Exception as exc:  # noqa: BLE001 - it is for all who asked
            for _, future in taken.values():
                future.set_exception(exc)
                future.exception()  # seen: whoever asked may have gone
        else:
            for key, (_, future) in taken.items():
                future.set_result(answers[key])

"""Many who ask the same kind of question at the same time, answered together.

Whoever asks while nobody else does is answered at once. Questions that come while one is being answered, or soon after where a
pause is made, are then one question: so a thousand machines cost the database little more than one, and one costs what it did.

There is no task of its own: whoever's turn it is answers for all who wait, and ends with those who began it.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
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
        self._waiting: dict[KeyT, _Question[WishT, AnswerT]] = {}
        self._turn = asyncio.Lock()

    async def ask(self, key: KeyT, wish: WishT) -> AnswerT:
        """Raises what `answer` raises. Two who ask under one key at once have one answer, to the later wish. What nobody waits
        for any more is not asked."""
        question = self._waiting.setdefault(key, _Question(asyncio.get_running_loop().create_future(), wish))
        question.wish = wish
        question.askers += 1
        try:
            async with self._turn:
                if not question.answer.done():
                    await self._answer_some(key, question)
            return question.answer.result()
        finally:
            question.askers -= 1
            if not question.askers and self._waiting.get(key) is question:
                del self._waiting[key]

    async def _answer_some(self, first: KeyT, question: "_Question[WishT, AnswerT]") -> None:
        left_s = self._began_s + self._pause_s() - self._clock.monotonic()
        if left_s > 0:
            await self._clock.sleep(left_s)
        self._began_s = self._clock.monotonic()
        self._waiting.pop(first, None)
        others = list(self._waiting)[: self._most - 1]
        taken = {first: question, **{key: self._waiting.pop(key) for key in others}}
        try:
            answers = await self._answer({key: one.wish for key, one in taken.items()})
        except asyncio.CancelledError:
            # Only whoever answered goes away: the next in turn answers those who still wait.
            for key, one in taken.items():
                if one is not question and one.askers:
                    self._waiting.setdefault(key, one)
            raise
        except Exception as exc:  # noqa: BLE001 - it is for all who asked
            for one in taken.values():
                one.answer.set_exception(exc)
                one.answer.exception()  # seen: whoever asked may have gone
        else:
            for key, one in taken.items():
                one.answer.set_result(answers[key])


@dataclass
class _Question(Generic[WishT, AnswerT]):
    answer: asyncio.Future[AnswerT]
    wish: WishT
    askers: int = 0

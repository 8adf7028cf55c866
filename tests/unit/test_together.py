"""Questions that come at the same time are one question, and nobody waits for what does not concern them."""

import asyncio
from collections.abc import Mapping

import pytest

from moorage.kit.clock import VirtualClock, system_clock
from moorage.kit.together import Together


class Answering:
    """Doubles numbers, when it is let."""

    def __init__(self) -> None:
        self.asked: list[dict[str, int]] = []
        self.lets = asyncio.Semaphore(0)
        self.error: Exception | None = None

    async def __call__(self, wishes: Mapping[str, int]) -> Mapping[str, int]:
        self.asked.append(dict(wishes))
        await self.lets.acquire()
        if self.error is not None:
            raise self.error
        return {key: 2 * wish for key, wish in wishes.items()}

    def let(self, answers: int) -> None:
        for _ in range(answers):
            self.lets.release()


async def begun(together: Together[str, int, int], **wishes: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(together.ask(key, wish)) for key, wish in wishes.items()]
    await asyncio.sleep(0)
    return tasks


async def test_who_asks_alone_is_answered_at_once_and_who_comes_meanwhile_together() -> None:
    answering = Answering()
    together = Together(answering, system_clock)
    first = await begun(together, a=1)
    others = await begun(together, b=2, c=3, d=4)
    assert answering.asked == [{"a": 1}]
    answering.let(9)
    assert await asyncio.gather(*first, *others) == [2, 4, 6, 8]
    assert answering.asked == [{"a": 1}, {"b": 2, "c": 3, "d": 4}]
    assert await together.ask("a", 5) == 10, "nothing is remembered"


async def test_not_too_many_at_once() -> None:
    answering = Answering()
    together = Together(answering, system_clock, most=2)
    tasks = await begun(together, a=1, b=2, c=3, d=4)
    answering.let(9)
    assert await asyncio.gather(*tasks) == [2, 4, 6, 8]
    assert [len(asked) for asked in answering.asked] == [1, 2, 1]


async def test_an_error_is_everybodys_who_asked_then_and_nobodys_after() -> None:
    answering = Answering()
    together = Together(answering, system_clock)
    answering.error = ValueError("away")
    tasks = await begun(together, a=1, b=2)
    answering.let(9)
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [repr(one) for one in found] == ["ValueError('away')"] * 2
    answering.error = None
    assert await together.ask("a", 1) == 2


async def test_whoever_goes_away_takes_nobody_along() -> None:
    answering = Answering()
    together = Together(answering, system_clock, most=3)
    (first,) = await begun(together, a=1)
    second, third, fourth = await begun(together, b=2, c=3, d=4)
    answering.let(1)
    await first
    await asyncio.sleep(0)  # the second answers for all three
    assert answering.asked[-1] == {"b": 2, "c": 3, "d": 4}
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    answering.let(9)
    assert await asyncio.gather(third, fourth) == [6, 8]


async def test_two_under_one_key_have_the_answer_to_the_later_wish() -> None:
    answering = Answering()
    together = Together(answering, system_clock)
    (busy,) = await begun(together, x=0)
    earlier = asyncio.create_task(together.ask("a", 1))
    later = asyncio.create_task(together.ask("a", 7))
    await asyncio.sleep(0)
    answering.let(9)
    assert await asyncio.gather(busy, earlier, later) == [0, 14, 14]


async def test_where_many_ask_a_pause_gathers_them() -> None:
    answering, clock = Answering(), VirtualClock()
    answering.let(9)
    together = Together(answering, clock, lambda: 0.25)
    assert await together.ask("a", 1) == 2, "the first one waits for nobody"
    tasks = await begun(together, b=2)
    await clock.advance(0.2)
    tasks += await begun(together, c=3)
    await clock.advance(0.1)
    assert await asyncio.gather(*tasks) == [4, 6]
    assert answering.asked == [{"a": 1}, {"b": 2, "c": 3}]


async def test_what_nobody_waits_for_any_more_is_not_asked() -> None:
    """A leader that was overtaken leaves nothing behind that the next one would write for it."""
    answering = Answering()
    together = Together(answering, system_clock)
    tasks = await begun(together, a=1, b=2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    answering.let(9)
    assert await together.ask("c", 3) == 6
    assert answering.asked == [{"a": 1}, {"c": 3}]


async def test_who_shares_a_question_with_one_that_goes_away_is_answered() -> None:
    answering = Answering()
    together = Together(answering, system_clock)
    (busy,) = await begun(together, x=0)
    going = asyncio.create_task(together.ask("a", 1))
    staying = asyncio.create_task(together.ask("a", 2))
    await asyncio.sleep(0)
    going.cancel()
    answering.let(9)
    assert await asyncio.gather(busy, staying) == [0, 4]

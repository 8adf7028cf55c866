"""Lasting work: whatever ends it is heard of, and being stopped is no such thing."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from moorage.kit.lasting import EndedError, look_for_good, run_for_good


async def returns() -> None:
    return None


async def fails() -> None:
    raise ValueError("broken")


async def is_cancelled_from_within() -> None:
    inner = asyncio.get_running_loop().create_future()
    inner.cancel()
    await inner


async def fails_in_a_group() -> None:
    async def late() -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    async with asyncio.TaskGroup() as group:
        group.create_task(late())


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        (returns, EndedError),
        (fails, ValueError),
        (is_cancelled_from_within, EndedError),
        (fails_in_a_group, ValueError),
    ],
)
async def test_the_first_end_ends_all_and_is_raised(
    ending: Callable[[], Awaitable[None]], error: type[Exception]
) -> None:
    stopped = asyncio.Event()

    async def lasts() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async def ends() -> None:
        await ending()

    with pytest.raises(BaseExceptionGroup) as raised:
        async with asyncio.timeout(10):
            await run_for_good({"lasts": lasts(), "ends": ends()})
    assert raised.value.subgroup(error) is not None
    assert stopped.is_set()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_stop_is_a_cancellation_also_when_something_fails_on_the_way() -> None:
    begun = asyncio.Event()

    async def fails_when_stopped() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("broken")

    task = asyncio.create_task(run_for_good({"it": fails_when_stopped()}))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_look_that_fails_is_made_again_when_something_changes() -> None:
    changed, looks = asyncio.Event(), asyncio.Queue[int]()

    async def look() -> None:
        looks.put_nowait(looks.qsize())
        raise OSError("the database is away")

    looking = asyncio.create_task(look_for_good("test", look, 3600, changed))
    async with asyncio.timeout(10):
        for _ in range(3):
            await looks.get()
            changed.set()
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking

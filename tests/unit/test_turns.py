"""Whose request computes next: a crowd of one client's stands in nobody's way."""

import asyncio

import pytest

from moorage.entrypoints.turns import (
    ALLOWANCE_S,
    BEGUN_AT_ONCE_PER_CLIENT,
    COMPUTES_S,
    FIRST_COSTS_S,
    MOST_WAITING,
    Turns,
)
from moorage.kit.clock import processor_time_s, system_clock
from moorage.kit.errors import TooManyRequestsError

BURNT_S = 0.02


async def burn(log: list[str], name: str) -> None:
    """In two steps, each of which is its own."""
    for _ in range(2):
        until_s = processor_time_s() + BURNT_S / 2
        while processor_time_s() < until_s:
            pass
        await asyncio.sleep(0)
    log.append(name)


async def test_another_client_stands_behind_a_few_of_them() -> None:
    turns, log = Turns(100, system_clock), list[str]()
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(turns.run("many", burn(log, "many")))
        await asyncio.sleep(0)
        group.create_task(turns.run("one", burn(log, "one")))
    assert log.index("one") <= 2 * BEGUN_AT_ONCE_PER_CLIENT
    assert len(log) == 21


async def test_a_client_uses_its_share_while_others_ask() -> None:
    turns, log = Turns(25, system_clock), list[str]()
    asked = asyncio.Event()

    async def ask_now_and_then() -> None:
        while not asked.is_set():
            await turns.run("one", asyncio.sleep(0))
            await asyncio.sleep(0.05)

    async with asyncio.TaskGroup() as group:
        group.create_task(ask_now_and_then())
        await asyncio.sleep(0)
        began_s = system_clock.monotonic()
        async with asyncio.TaskGroup() as attack:
            for _ in range(25):
                attack.create_task(turns.run("many", burn(log, "many")))
        took_s = system_clock.monotonic() - began_s
        asked.set()
    used_s = len(log) * BURNT_S
    at_once_s = ALLOWANCE_S + BEGUN_AT_ONCE_PER_CLIENT * (BURNT_S + FIRST_COSTS_S)
    assert used_s <= 0.25 * took_s + at_once_s


async def test_alone_it_has_all_of_it() -> None:
    """What it waits for is counted, which no busy machine changes."""
    turns, log, pauses_s = Turns(25, system_clock), list[str](), list[float]()

    class Counted:
        def __getattr__(self, name: str) -> object:
            return getattr(system_clock, name)

        async def sleep(self, seconds: float) -> None:
            pauses_s.append(seconds)

    turns._clock = Counted()  # type: ignore[assignment]
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(turns.run("only", burn(log, "only")))
    assert pauses_s == []


async def test_what_lasts_holds_no_place() -> None:
    turns, over = Turns(100, system_clock), asyncio.Event()
    waiting = [asyncio.create_task(turns.run("a", _until(over))) for _ in range(BEGUN_AT_ONCE_PER_CLIENT)]
    async with asyncio.timeout(COMPUTES_S + 5):
        await turns.run("a", asyncio.sleep(0))
    over.set()
    await asyncio.gather(*waiting)


async def test_too_many_that_wait_are_refused_and_errors_pass_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # All of them wait, however long that takes here.
    monkeypatch.setattr("moorage.entrypoints.turns.COMPUTES_S", 3600)
    turns, over = Turns(100, system_clock), asyncio.Event()
    waiting = [
        asyncio.create_task(turns.run("a", _until(over)))
        for _ in range(BEGUN_AT_ONCE_PER_CLIENT + MOST_WAITING)
    ]
    await asyncio.sleep(0)
    with pytest.raises(TooManyRequestsError):
        await turns.run("a", _until(over))
    over.set()
    await asyncio.gather(*waiting)

    async def fails() -> None:
        await asyncio.sleep(0)
        raise LookupError

    with pytest.raises(LookupError):
        await turns.run("a", fails())
    called_off = asyncio.create_task(turns.run("a", _until(asyncio.Event())))
    await asyncio.sleep(0)
    called_off.cancel()
    with pytest.raises(asyncio.CancelledError):
        await called_off
    assert turns._begun.clients == 0


async def _until(over: asyncio.Event) -> None:
    await over.wait()

"""Places for many clients: a share for each, and turns."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kit.errors import TooManyRequestsError, UnavailableError
from moorage.kit.fair_slots import FairSlots


async def _hold(slots: FairSlots, client: str, leave: asyncio.Event, log: list[str]) -> None:
    async with slots.taken(client):
        log.append(client)
        await leave.wait()


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_one_client_leaves_room_for_another() -> None:
    slots, leave, log = FairSlots(4, 2, 10, 30), asyncio.Event(), list[str]()
    async with asyncio.TaskGroup() as group:
        for client in ("many",) * 8 + ("one",):
            group.create_task(_hold(slots, client, leave, log))
        await _settle()
        assert Counter(log) == {"many": 2, "one": 1}
        leave.set()
    assert Counter(log) == {"many": 8, "one": 1}
    assert slots.clients == 0


async def test_clients_take_turns() -> None:
    slots, log = FairSlots(1, 1, 10, 30), list[str]()
    leave = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for client in "aaaabbc":
            group.create_task(_hold(slots, client, leave, log))
        await _settle()
        leave.set()
    assert log == list("aabcaba")


async def test_no_room_to_wait_and_no_end_of_waiting() -> None:
    slots, leave, log = FairSlots(1, 1, 2, 0.05), asyncio.Event(), list[str]()
    held = asyncio.create_task(_hold(slots, "a", leave, log))
    await _settle()
    waiting = [asyncio.create_task(_hold(slots, "a", leave, log)) for _ in range(2)]
    await _settle()
    with pytest.raises(TooManyRequestsError):
        await _hold(slots, "a", leave, log)
    for one in waiting:
        with pytest.raises(UnavailableError):
            await one
    leave.set()
    await held
    assert slots.clients == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40))
def test_never_more_than_the_share_and_all_come_back(steps: list[tuple[str, bool]]) -> None:
    """Whoever waits may be cancelled at any time; no place is lost by it."""

    async def story() -> None:
        slots, leave, log = FairSlots(3, 2, 100, 30), asyncio.Event(), list[str]()
        tasks = list[asyncio.Task[None]]()
        for client, cancels in steps:
            if cancels and tasks:
                tasks[len(log) % len(tasks)].cancel()
            tasks.append(asyncio.create_task(_hold(slots, client, leave, log)))
            await asyncio.sleep(0)
            assert all(slots.held_by(one) <= 2 for one in "abc")
            assert sum(slots.held_by(one) for one in "abc") <= 3
        leave.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert slots.clients == 0

    asyncio.run(story())


async def test_a_place_is_not_lost_to_one_that_was_just_called_off() -> None:
    """It is given back in the same turn of the loop in which the one who waited for it is cancelled."""
    slots, leave, log = FairSlots(1, 1, 10, 30), asyncio.Event(), list[str]()
    await slots.take("a")
    called_off = [asyncio.create_task(_hold(slots, client, leave, log)) for client in ("b", "b", "c")]
    await _settle()
    for one in called_off:
        one.cancel()  # what it waits for is cancelled; it has not run yet
    slots.give_back("a")
    leave.set()
    await asyncio.gather(*called_off, return_exceptions=True)
    assert slots.clients == 0
    await asyncio.wait_for(_hold(slots, "d", leave, log), 1)

"""Who is told to stop stops, at whatever moment: nobody says it twice, and whoever waits for the end waits for ever."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from moorage.containers.reconciler.operations import Operations
from moorage.containers.reconciler.places import Kind, Ticket
from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.simulated import SimulatedMachine
from moorage.kit.clock import VirtualClock
from moorage.telemetry.logs.buffer import LineBuffer

MOST_TURNS = 8
"""Of the event loop, from what somebody waits for until they are cancelled: more than anybody needs to wake up."""
DEADLINE_S = 10.0

Waiting = tuple[Coroutine[Any, Any, None], Callable[[], None]]


def at_a_machine() -> Waiting:
    machine = SimulatedMachine(VirtualClock(), {})

    async def waits() -> None:
        while True:
            await machine.wait(machine.clock.now() + timedelta(hours=1))

    return waits(), machine._announce


def at_a_buffer() -> Waiting:
    unused: Any = None
    buffer = LineBuffer(unused, unused)
    buffer._something.set()

    async def waits() -> None:
        async for _ in buffer.batches():
            pass

    return waits(), buffer._take_now.set


@pytest.mark.parametrize("turns", range(MOST_TURNS))
@pytest.mark.parametrize("waiting", [at_a_machine, at_a_buffer])
async def test_what_comes_first_does_not_hide_the_cancellation(
    waiting: Callable[[], Waiting], turns: int
) -> None:
    work, happens = waiting()
    task = asyncio.create_task(work)
    await _turns(MOST_TURNS)
    happens()
    await _turns(turns)
    task.cancel()
    ended, _ = await asyncio.wait([task], timeout=DEADLINE_S)
    assert ended, "it waits on, and nobody will cancel it again"
    assert task.cancelled()


async def test_whoever_lets_go_of_operations_does_so_though_they_are_stopped_meanwhile() -> None:
    """A leader that is told a second time to end, while it waits for calls that end slowly."""
    clock, ends, began = VirtualClock(), asyncio.Event(), asyncio.Event()
    operations = Operations(clock, lambda _: None)

    async def slow_to_end() -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            await ends.wait()

    operations.begin(Ticket("rep_a", Kind.START, "org_a"), "ctr_a", slow_to_end)
    operations._pause_after("rep_b", "ctr_b", ValueError("broken"))
    await began.wait()
    letting_go = asyncio.create_task(operations.cancel_all())
    await _turns(MOST_TURNS)
    asyncio.get_running_loop().call_later(0.01, ends.set)
    letting_go.cancel()
    await asyncio.wait([letting_go], timeout=DEADLINE_S)
    assert letting_go.cancelled()
    assert not operations.busy_keys()
    assert not operations._failures
    assert not operations._places_of(LOCAL_ENGINE)._taken[Kind.START], (
        "a place that was given back twice would be one too many"
    )


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)

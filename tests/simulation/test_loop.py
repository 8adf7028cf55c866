"""What is due at the same moment runs in one order, whatever else waits: or a seed tells two stories."""

import asyncio
import contextvars

from tests.simulation.loop import PROCESS, Process, SimulationLoop


def _order(others: int) -> list[int]:
    """Fifty timers for one moment, between so many that were given up."""
    loop, called = SimulationLoop(), list[int]()
    for number in range(50):
        for one in range(others):
            loop.call_at(3.0 + one, called.append, -1).cancel()
        loop.call_at(7.0, called.append, number)
    loop.run_until_complete(asyncio.sleep(9.0))
    loop.close()
    return called


def test_what_is_due_at_once_comes_in_the_order_in_which_it_was_made() -> None:
    assert [_order(others) for others in (0, 1, 2, 9)] == [list(range(50))] * 4


def test_time_that_is_skipped_changes_no_order() -> None:
    loop, called = SimulationLoop(), list[int]()
    process = contextvars.Context()
    process.run(PROCESS.set, Process("some", loop))
    for number in range(50):
        loop.call_at(7.0, called.append, number, context=process)
    loop.skip(100.0)
    loop.run_until_complete(asyncio.sleep(9.0))
    loop.close()
    assert called == list(range(50))

"""The watchdog over every event loop, and where its word is shown."""

import asyncio
import hashlib
import threading

import pytest
from api_support import Api
from api_support import api_fixture as api_fixture

from moorage.kit.clock import processor_time_s, system_clock
from moorage.kit.database import Database
from moorage.kit.stalls.report import watch_loop
from moorage.kit.stalls.repository import add_stalls, list_stalls
from moorage.kit.stalls.watchdog import STALL_S, Stalls, StallWatchdog


def compute(for_s: float) -> None:
    until_s = processor_time_s() + for_s
    while processor_time_s() < until_s:
        pass


async def settled(watchdog: StallWatchdog, count: int) -> Stalls:
    found = Stalls()
    async with asyncio.timeout(20):
        while found.count < count:
            await asyncio.sleep(0.01)
            taken = watchdog.take()
            found = Stalls(
                found.count + taken.count, max(found.longest_s, taken.longest_s), taken.where or found.where
            )
    return found


async def test_a_long_computation_is_a_stall_and_says_where() -> None:
    watchdog = StallWatchdog()
    with watchdog.watching():
        await asyncio.sleep(0.1)
        watchdog.take()
        compute(STALL_S * 4)
        found = await settled(watchdog, 1)
    assert found.longest_s >= STALL_S * 3
    assert found.where.startswith(("compute", "processor_time_s", "kit/clock.py"))


async def test_waiting_is_none_nor_is_the_work_of_another_thread() -> None:
    watchdog = StallWatchdog()
    with watchdog.watching():
        other = threading.Thread(target=lambda: hashlib.pbkdf2_hmac("sha256", b"x", b"y", 1_000_000))
        other.start()
        for _ in range(100):
            compute(0.002)
            await asyncio.sleep(0.002)
        other.join()  # the loop's thread stands still, and computes nothing
        await asyncio.sleep(0.1)
        assert watchdog.take() == Stalls()


async def test_a_crowd_of_short_calls_is_no_stall() -> None:
    """They come in one turn of the loop, which takes as long as all of them; no one of them does."""
    watchdog = StallWatchdog()

    async def short() -> None:
        compute(0.004)

    with watchdog.watching():
        await asyncio.sleep(0.1)
        watchdog.take()
        await asyncio.gather(*(short() for _ in range(60)))
        await asyncio.sleep(0.1)
        assert watchdog.take() == Stalls()


async def test_a_call_that_lets_no_other_thread_run_is_one() -> None:
    watchdog = StallWatchdog()
    with watchdog.watching():
        await asyncio.sleep(0.1)
        watchdog.take()
        assert sum(range(10_000_000)) > 0  # the interpreter waits for it
        assert (await settled(watchdog, 1)).longest_s >= STALL_S


async def test_stalls_add_up_by_role_and_machine(api: Api) -> None:
    async with api.database.transaction() as session:
        for stalls in (Stalls(), Stalls(2, 0.2, "a.py:1"), Stalls(1, 0.1, "b.py:2")):
            await add_stalls(session, "controller", "here", stalls)
        await add_stalls(session, "api", "here", Stalls())
        rows = {row.role: row for row in await list_stalls(session)}
        assert (rows["controller"].stalls, rows["controller"].longest_ms) == (3, 200)
        assert rows["controller"].longest_where == "a.py:1"
        assert rows["api"].last_at is None
    answer = await api.ask(api.operator, "GET", "/metrics")
    assert 'moorage_loop_stalls_total{role="controller",host="here"} 3' in answer.text
    assert 'moorage_loop_stalls_total{role="api",host="here"} 0' in answer.text
    assert 'where="a.py:1"} 0.2' in answer.text


@pytest.mark.long
async def test_a_role_says_that_it_is_watched(database: Database) -> None:
    watch = asyncio.create_task(watch_loop("gateway", database.dsn, system_clock))
    async with asyncio.timeout(20):
        while True:
            async with database.reading() as session:
                if [row.stalls for row in await list_stalls(session)] == [0]:
                    break
            await asyncio.sleep(0.02)
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)

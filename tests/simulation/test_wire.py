"""The simulated connections: what happens to one process is not another's."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

import asyncpg
import pytest

from moorage.kit.database import LONGEST_IDLE_TRANSACTION_S
from tests.simulation.loop import Process, SimulationLoop
from tests.simulation.server import START_US, Server, postgres
from tests.simulation.types_learnt import types_learnt_once
from tests.simulation.wire import Calm, Wire


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres() as started:
        yield started


class Far(Calm):
    """From all but the first process, answers travel for a while: time in which something may happen to that one."""

    def after(self, process: Process | None, sql: str) -> tuple[float, bool]:
        return (0.0 if process is None or process.name == "first" else 0.1), False


@pytest.fixture
def loop(server: Server) -> Iterator[SimulationLoop]:
    """With Postgres behind it."""
    made, monitor = SimulationLoop(), server.plain()
    server.empty(monitor)
    server.backends.begin_a_seed()
    wire = Wire(made, server.backends, monitor, lambda: START_US + int(made.time() * 1_000_000), Far())
    made.connect_to_postgres = wire.connect
    with types_learnt_once():
        yield made
    for transport in list(wire.transports):
        transport.die()
    monitor.close()
    made.close()


Work = Callable[[asyncpg.Connection], Coroutine[Any, Any, Any]]


def spawn(process: Process, server: Server, work: Work) -> asyncio.Task[Any]:
    async def connected() -> Any:
        return await work(await asyncpg.connect(server.dsn))

    return process.spawn(connected(), "work")


def test_an_answer_comes_although_whoever_gave_the_lock_back_is_stopped(
    server: Server, loop: SimulationLoop
) -> None:
    holder, waiter = Process("first", loop), Process("second", loop)
    is_locked = asyncio.Event()

    async def hold(connection: asyncpg.Connection) -> None:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("SELECT pg_advisory_xact_lock(1)")
        is_locked.set()
        await asyncio.sleep(1)
        await transaction.commit()

    async def wait(connection: asyncpg.Connection) -> float:
        await is_locked.wait()
        await connection.execute("SELECT pg_advisory_lock(1)")
        return loop.time()

    async def story() -> float:
        held, got = spawn(holder, server, hold), spawn(waiter, server, wait)
        await asyncio.wait([held])
        holder.stop()
        async with asyncio.timeout(30):
            return await got

    assert loop.run_until_complete(story()) < 2


def test_a_notification_comes_although_whoever_sent_it_is_dead(server: Server, loop: SimulationLoop) -> None:
    sender, hearer = Process("first", loop), Process("second", loop)
    listens, heard = asyncio.Event(), asyncio.Event()

    async def hear(connection: asyncpg.Connection) -> None:
        await connection.add_listener("news", lambda *_: heard.set())
        listens.set()
        await heard.wait()

    async def send(connection: asyncpg.Connection) -> None:
        await listens.wait()
        await connection.execute("NOTIFY news")

    async def story() -> None:
        hears, sent = spawn(hearer, server, hear), spawn(sender, server, send)
        await asyncio.wait([sent])
        sender.kill()
        async with asyncio.timeout(30):
            await hears

    loop.run_until_complete(story())


def test_a_transaction_that_stands_still_holds_its_locks_for_a_while_only(
    server: Server, loop: SimulationLoop
) -> None:
    holder, waiter = Process("first", loop), Process("second", loop)
    is_locked = asyncio.Event()

    async def hold(connection: asyncpg.Connection) -> None:
        await connection.transaction().start()
        await connection.execute("SELECT pg_advisory_xact_lock(1)")
        is_locked.set()
        holder.stop()
        await connection.execute("SELECT 1")

    async def wait(connection: asyncpg.Connection) -> float:
        await is_locked.wait()
        await connection.execute("SELECT pg_advisory_lock(1)")
        return loop.time()

    async def story() -> float:
        held, got = spawn(holder, server, hold), spawn(waiter, server, wait)
        async with asyncio.timeout(30):
            got_at_s = await got
        holder.go_on()
        with pytest.raises(asyncpg.PostgresConnectionError):
            await held
        return got_at_s

    assert LONGEST_IDLE_TRANSACTION_S < loop.run_until_complete(story()) < LONGEST_IDLE_TRANSACTION_S + 1


@pytest.mark.parametrize("real_pause_s", [0.0, 0.3])
def test_of_a_circle_the_one_that_waits_longest_is_refused(
    server: Server, loop: SimulationLoop, real_pause_s: float
) -> None:
    """However long things take by the real clock, by which Postgres itself would choose."""
    begun = [asyncio.Event(), asyncio.Event()]

    async def lock_both(connection: asyncpg.Connection, number: int) -> str:
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({number})")
            begun[number].set()
            await begun[1 - number].wait()
            await asyncio.sleep(number)
            if number:
                time.sleep(real_pause_s)  # noqa: ASYNC251 - the real clock goes on, nothing else does
            await connection.execute(f"SELECT pg_advisory_xact_lock({1 - number})")
        return "has both"

    async def story() -> list[Any]:
        work = [
            spawn(Process(name, loop), server, partial(lock_both, number=number))
            for number, name in enumerate(("first", "second"))
        ]
        async with asyncio.timeout(30):
            return await asyncio.gather(*work, return_exceptions=True)

    refused, other = loop.run_until_complete(story())
    assert isinstance(refused, asyncpg.DeadlockDetectedError), refused
    assert other == "has both"

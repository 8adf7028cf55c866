"""Everything a replica prints is stored once and in order, whatever breaks on the way."""

import asyncio
import contextlib
import random

import pytest
from log_support import (
    ERR,
    KEYRING,
    OURS,
    OUT,
    SECRET,
    Printer,
    World,
    chunk,
    eventually,
    new_world,
    numbered,
    per_stream,
)
from sqlalchemy import text

from moorage.containers.models import ContainerRow
from moorage.engines.base import LOCAL_ENGINE, LogChunk
from moorage.engines.engines import Engines
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener
from moorage.kit.errors import LeaseLostError
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Driver
from moorage.telemetry.logs.collector import LogCollector
from moorage.telemetry.logs.copying import Source
from moorage.telemetry.logs.cursor import FORGOTTEN
from moorage.telemetry.logs.follower import Follower
from moorage.telemetry.logs.pace import BEHIND_S, DROPPED_AT_ONCE
from moorage.telemetry.logs.preparing import Preparer


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


def follower(world: World, source: Source) -> Follower:
    return Follower(
        source,
        world.database,
        Engines({LOCAL_ENGINE: world.engine}),
        KEYRING,
        system_clock,
        world.lease,
        asyncio.Semaphore(3),
        Preparer(system_clock),
    )


def collector(world: World) -> LogCollector:
    return LogCollector(
        world.database, Engines({LOCAL_ENGINE: world.engine}), KEYRING, Settings(), system_clock
    )


@contextlib.asynccontextmanager
async def leading(world: World):
    task = asyncio.create_task(collector(world).lead(world.lease))
    yield
    assert not task.done(), task
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_thousand_lines_then_death(world: World) -> None:
    printer = Printer(numbered(1000))
    source = await world.new_replica(await world.new_container(), printer)
    await follower(world, source).run()
    lines = await world.stored(source.replica_id)
    assert [line.text for line in lines] == [f"line {number}" for number in range(1000)]
    assert [line.sequence for line in lines] == list(range(1000))
    assert [line.time.microsecond for line in lines[:4]] == [0, 1, 1, 3]
    assert {(line.stream, line.container_id, line.project_id) for line in lines} == {
        (1, source.container_id, world.project_id)
    }
    assert (await world.replica(source.replica_id)).collected_at is not None


async def test_the_containers_reconciler_is_asked_to_look(world: World) -> None:
    source = await world.new_replica(await world.new_container(), Printer([]))
    await follower(world, source).run()
    async with world.database.transaction() as session:
        container = await session.get(ContainerRow, source.container_id)
    assert container is not None
    assert container.reconcile_at is not None


def mixed_output() -> list[LogChunk]:
    """Both streams, equal times, lines in parts (with the time of the first part), no line end at the end."""
    return [
        chunk(0, "first"),
        chunk(0, "second"),
        chunk(0, "an error", ERR),
        chunk(1000, "a long ", ends=False),
        chunk(1000, "trace: ", ERR, ends=False),
        chunk(2000, "line", ends=False),
        chunk(1000, "frame 1, ", ERR, ends=False),
        chunk(2000, " of four", ends=True),
        chunk(2000, "parts"),
        chunk(1000, "frame 2", ERR),
        chunk(3000, "same"),
        chunk(3000, "same"),
        chunk(3000, "same", ERR),
        chunk(3000, "same", ERR),
        chunk(15_000_000_000, "much later"),
        chunk(15_000_000_000, "no line end", ends=False),
    ]


@pytest.mark.parametrize("second_break", [None, 1, 5])
@pytest.mark.long
async def test_broken_at_every_chunk(world: World, second_break: int | None) -> None:
    chunks, container_id = mixed_output(), await world.new_container()
    for first_break in range(len(chunks) + 1):
        breaks = [first_break] if second_break is None else [first_break, second_break]
        printer = Printer(list(chunks), breaks_after=breaks)
        source = await world.new_replica(container_id, printer)
        await follower(world, source).run()
        lines = await world.stored(source.replica_id)
        found = {
            stream: [line.text for line in lines if line.stream == number]
            for stream, number in ((OUT, 1), (ERR, 2))
        }
        assert found == per_stream(chunks), breaks
        assert [line.sequence for line in lines] == list(range(len(lines)))


@pytest.mark.long
async def test_a_stream_that_ends_before_its_process(world: World) -> None:
    """It is not the end: the open line is not cut in two, and what comes later is stored."""
    chunks, container_id = mixed_output(), await world.new_container()
    for breaks_after in range(len(chunks)):
        printer = Printer(list(chunks), ended=False, breaks_after=[breaks_after], breaks_cleanly=True)
        source = await world.new_replica(container_id, printer)
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            group.create_task(follower(world, source).run())

            async def read_again(printer: Printer = printer) -> bool:
                return printer.reads >= 2

            await eventually(read_again, "the stream is read again")
            assert (await world.replica(source.replica_id)).collected_at is None
            printer.ends()
        lines = await world.stored(source.replica_id)
        assert [line.text for line in lines if line.stream == 1] == per_stream(chunks)[OUT]
        assert [line.text for line in lines if line.stream == 2] == per_stream(chunks)[ERR]


async def test_two_readers_at_once_store_each_line_once(world: World) -> None:
    source = await world.new_replica(await world.new_container(), Printer(numbered(5500)))
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(follower(world, source).run())
    assert await world.texts(source.replica_id) == [f"line {number}" for number in range(5500)]


async def test_cancelled_at_every_chunk(world: World) -> None:
    chunks, container_id = mixed_output(), await world.new_container()
    for cut in range(1, len(chunks) + 1):
        source = await world.new_replica(container_id, printer := Printer(list(chunks)))
        task = asyncio.create_task(follower(world, source).run())
        seen = 0

        def cancel(cut: int = cut, task: asyncio.Task[None] = task) -> None:
            nonlocal seen
            seen += 1
            if seen == cut:
                task.cancel()

        printer.on_chunk = cancel
        with pytest.raises(asyncio.CancelledError):
            await task
        await follower(world, source).run()
        lines = await world.stored(source.replica_id)
        assert [line.text for line in lines if line.stream == 1] == per_stream(chunks)[OUT]
        assert [line.text for line in lines if line.stream == 2] == per_stream(chunks)[ERR]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.long
async def test_cancelled_at_any_moment(world: World, seed: int) -> None:
    """The moments fall into reads, batches and commits alike."""
    chance = random.Random(seed)
    source = await world.new_replica(await world.new_container(), Printer(numbered(5500)))
    cancelled = 0
    while (await world.replica(source.replica_id)).collected_at is None:
        task = asyncio.create_task(follower(world, source).run())
        await asyncio.wait({task}, timeout=chance.uniform(0.0, 0.02) if cancelled < 40 else None)
        cancelled += task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert cancelled > 1
    assert await world.texts(source.replica_id) == [f"line {number}" for number in range(5500)]


async def test_through_the_driver_with_notifications(world: World, database_dsn: str) -> None:
    """A controller that is ended and started again in the middle, with several replicas that go on printing."""
    await world.database.close()
    async with world.database.transaction() as session:
        await session.execute(text("UPDATE leases SET expires_at = now()"))
    container_id = await world.new_container()
    printers = [Printer(numbered(300, f"replica {index}"), ended=False) for index in range(3)]
    sources = [await world.new_replica(container_id, printer) for printer in printers]

    async def all_stored(count: int) -> bool:
        return all([len(await world.stored(source.replica_id)) == count for source in sources])

    async def all_collected() -> bool:
        return all([(await world.replica(source.replica_id)).collected_at is not None for source in sources])

    for round_number in (1, 2):
        listener = Listener(database_dsn)
        driver = Driver(
            collector(world), world.database, listener, f"controller {round_number}", system_clock
        )
        tasks = [asyncio.create_task(listener.run()), asyncio.create_task(driver.run())]
        await eventually(lambda count=300 * round_number: all_stored(count), "lines stored")
        for index, printer in enumerate(printers):
            later = numbered(600, f"replica {index}")[300:]
            printer.prints(*later) if round_number == 1 else printer.ends()
        if round_number == 2:
            await eventually(all_collected, "all collected")
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for index, source in enumerate(sources):
        assert await world.texts(source.replica_id) == [f"replica {index} {number}" for number in range(600)]


async def test_live_lines_are_stored_soon(world: World) -> None:
    printer = Printer([], ended=False)
    async with leading(world):
        source = await world.new_replica(await world.new_container(), printer, state="starting")
        printer.prints(chunk(0, "hello"))

        async def stored() -> bool:
            return await world.texts(source.replica_id) == ["hello"]

        await eventually(stored, "the line is stored", timeout_s=3)
        assert (await world.replica(source.replica_id)).collected_at is None


async def test_secrets_are_masked_and_control_characters_shown(world: World) -> None:
    chunks = [
        chunk(0, f"token={SECRET}"),
        chunk(1, "half sword", ends=False),
        chunk(1, "fish-42 joined"),
        chunk(2, "nul\x00 bell\x07"),
    ]
    source = await world.new_replica(await world.new_container(), Printer(chunks))
    await follower(world, source).run()
    assert await world.texts(source.replica_id) == ["token=••••••", "half •••••• joined", "nul bell␇"]


async def test_a_line_of_ten_megabytes(world: World) -> None:
    parts = [chunk(0, "x" * 16384, ends=False) for _ in range(640)] + [chunk(0, "end"), chunk(1, "next")]
    source = await world.new_replica(await world.new_container(), Printer(parts))
    await follower(world, source).run()
    cut = 639 * 16384 + 3
    assert await world.texts(source.replica_id) == ["x" * 16384 + f" … [{cut} bytes cut]", "next"]


async def test_a_replica_that_is_gone_is_collected(world: World) -> None:
    source = await world.new_replica(await world.new_container(), Printer([], gone=True), state="stopped")
    await follower(world, source).run()
    assert (await world.replica(source.replica_id)).collected_at is not None


async def test_a_replica_that_never_ran_is_collected(world: World) -> None:
    container_id = await world.new_container()
    source = await world.new_replica(container_id, state="stopped")
    waiting = await world.new_replica(container_id, state="requested")
    async with leading(world):

        async def collected() -> bool:
            return (await world.replica(source.replica_id)).collected_at is not None

        await eventually(collected, "collected")
    assert (await world.replica(waiting.replica_id)).collected_at is None


async def test_a_former_leader_writes_nothing(world: World) -> None:
    source = await world.new_replica(await world.new_container(), Printer(numbered(10)))
    async with world.database.transaction() as session:
        await session.execute(text("UPDATE leases SET token = token + 1"))
    with pytest.raises(LeaseLostError):
        await follower(world, source).run()
    with pytest.raises(LeaseLostError):
        await collector(world).lead(world.lease)
    assert await world.texts(source.replica_id) == []


async def test_a_flood_leaves_the_others_alone(world: World) -> None:
    """While one replica prints without end, a line of another is stored within a second."""
    container_id = await world.new_container()
    flood = await world.new_replica(container_id, Printer(numbered(100_000), ended=False))
    quiet = Printer([], ended=False)
    source = await world.new_replica(container_id, quiet)
    async with leading(world):

        async def flooding() -> bool:
            return len(await world.stored(flood.replica_id)) >= 1000

        await eventually(flooding, "the flood has begun")
        quiet.prints(chunk(0, "hello"))
        began_s = system_clock.monotonic()

        async def stored() -> bool:
            return await world.texts(source.replica_id) == ["hello"]

        await eventually(stored, "the quiet one's line is stored")
        assert system_clock.monotonic() - began_s < 2.0


async def test_a_flood_is_cut_and_says_by_how_much(world: World) -> None:
    container_id = await world.new_container()
    # A hundred thousand lines within a tenth of a second; then it calms down.
    calm = [chunk(5 * 10**9 + number * 10**9, f"calm {number}") for number in range(3)]
    source = await world.new_replica(container_id, Printer(numbered(100_000) + calm))
    await follower(world, source).run()
    lines = await world.stored(source.replica_id)
    kept = [one.text for one in lines if one.stream != OURS]
    told = [int(one.text.split()[0]) for one in lines if one.stream == OURS]
    assert len(kept) + sum(told) == 100_003
    assert kept[:20_000] == [f"line {number}" for number in range(20_000)]
    assert kept[-3:] == ["calm 0", "calm 1", "calm 2"]
    assert [line.sequence for line in lines] == list(range(len(lines)))


async def test_lines_that_the_engine_did_not_keep_are_missed_aloud(world: World) -> None:
    printer = Printer(numbered(30), breaks_after=[10])
    source = await world.new_replica(await world.new_container(), printer)

    def forget() -> None:
        # The engine changes its files while nobody reads.
        if printer.reads == 2:
            printer.chunks[:] = numbered(30)[20:]

    printer.on_read = forget
    await follower(world, source).run()
    assert await world.texts(source.replica_id) == [
        *(f"line {number}" for number in range(10)),
        FORGOTTEN.decode(),
        *(f"line {number}" for number in range(20, 30)),
    ]


@pytest.mark.long
async def test_a_flood_that_goes_on_is_not_read_to_its_end(world: World) -> None:
    """It is read at a pace, and from the present again once that is far away; what is missing is said."""
    # As if it had begun to print just before its reader would be too far behind.
    begin_ns = int((system_clock.now().timestamp() - BEHIND_S + 0.5) * 10**9)
    printer = Printer([LogChunk(begin_ns, OUT, b"begins", True)], ended=False, together=1000)
    source = await world.new_replica(await world.new_container(), printer)
    lines = 20_000 + 2 * DROPPED_AT_ONCE
    async with leading(world):

        async def followed() -> bool:
            return await world.texts(source.replica_id) == ["begins"]

        await eventually(followed, "it is followed")
        printer.prints(*[LogChunk(begin_ns + n, OUT, b"line %d" % n, True) for n in range(1, lines)])

        async def given_up() -> bool:
            return printer.reads == 2

        await eventually(given_up, "the reader has begun again")
        printer.prints(LogChunk(begin_ns + 10**10, OUT, b"the end", True))
        printer.ends()

        async def collected() -> bool:
            return (await world.replica(source.replica_id)).collected_at is not None

        await eventually(collected, "all is stored")
    texts = await world.texts(source.replica_id)
    told = [int(one.split()[0]) for one in texts if "lines dropped here" in one]
    assert (texts[0], texts[-1]) == ("begins", "the end")
    assert len([one for one in texts if one == FORGOTTEN.decode()]) == 1
    assert 0 < len(texts) + sum(told) < lines, "some were neither kept nor counted, but left where they were"

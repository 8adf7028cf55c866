"""Pages that go back in time, and a tail that goes on: each line once."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from log_support import BASE_NS, ERR, OUT, World, new_world
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.engines.base import LogStream
from moorage.kit.database import Database
from moorage.kit.errors import InvalidInputError
from moorage.telemetry.logs.copying import Source
from moorage.telemetry.logs.cursor import Cursor, RawLine
from moorage.telemetry.logs.reading import repository as reading
from moorage.telemetry.logs.reading.positions import LinePosition, decode_tail, encode_tail
from moorage.telemetry.logs.reading.repository import (
    MOST_BYTES,
    Lines,
    LogFilter,
    LogScope,
    Order,
    StoredLine,
    count_lines,
    list_lines,
)
from moorage.telemetry.logs.reading.tail import STEP_LINES, Tail, TailedLine
from moorage.telemetry.logs.repository import find_or_create_cursor, finish, store_lines
from moorage.telemetry.steps import steps_for

EVERYTHING = LogFilter()
BASE = datetime(2026, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


@pytest.fixture
async def source(world: World) -> Source:
    return await new_source(world, await world.new_container())


async def new_source(world: World, container_id: str) -> Source:
    source = await world.new_replica(container_id)
    async with world.database.transaction() as session:
        await find_or_create_cursor(session, source)
    return source


async def store(world: World, source: Source, *lines: tuple[int, str] | tuple[int, str, LogStream]) -> None:
    """(seconds after BASE, text, stream)"""
    async with world.database.transaction() as session:
        first = (await find_or_create_cursor(session, source)).next_sequence
        new = [
            RawLine(first + index, BASE_NS + seconds * 10**9, stream[0] if stream else OUT, b"", 0)
            for index, (seconds, _, *stream) in enumerate(lines)
        ]
        texts = [line[1] for line in lines]
        await store_lines(session, source, new, texts, Cursor(next_sequence=first + len(new)))


def scope_of(source: Source) -> LogScope:
    return LogScope(source.project_id, source.container_id)


async def page(
    world: World,
    source: Source,
    wanted: LogFilter = EVERYTHING,
    before: LinePosition | None = None,
    limit: int = 100,
) -> list[StoredLine]:
    async with world.database.transaction() as session:
        return (await list_lines(session, scope_of(source), wanted, limit, before)).items


async def texts(world: World, source: Source, wanted: LogFilter) -> list[str]:
    return [line.text for line in await page(world, source, wanted)]


async def test_pages_are_complete_and_stable_while_lines_arrive(world: World, source: Source) -> None:
    other = await new_source(world, source.container_id)
    for index in range(10):
        # Both replicas print at the same moments, with the same sequence numbers.
        await store(world, source, *((index, f"a {index} {repeat}") for repeat in range(5)))
        await store(world, other, *((index, f"b {index} {repeat}") for repeat in range(5)))
    expected = await page(world, source, limit=1000)
    assert len(expected) == 100
    assert [line.time for line in expected] == sorted((line.time for line in expected), reverse=True)
    found: list[StoredLine] = []
    before: LinePosition | None = None
    while lines := await page(world, source, before=before, limit=7):
        found += lines
        before = lines[-1].position
        await store(world, source, (1000 + len(found), "later"))
    assert found == expected


async def test_lines_of_one_moment_are_in_order(world: World, source: Source) -> None:
    await store(world, source, *((0, str(number)) for number in range(50)))
    assert [line.text for line in await page(world, source)] == [
        str(number) for number in reversed(range(50))
    ]


async def test_another_container_is_not_shown(world: World, source: Source) -> None:
    await store(world, source, (0, "mine"))
    other = await new_source(world, await world.new_container())
    assert await page(world, other) == []


async def test_filters(world: World, source: Source) -> None:
    other = await new_source(world, source.container_id)
    await store(world, source, (0, "GET /health 200"), (1, "100% done", ERR), (2, "a_b\\c"), (3, "axb"))
    await store(world, other, (2, "from the other"))
    assert await texts(world, source, LogFilter(stream=LogStream.STDERR)) == ["100% done"]
    assert await texts(world, source, LogFilter(replica_id=other.replica_id)) == ["from the other"]
    assert await texts(world, source, LogFilter(text="get /HEALTH")) == ["GET /health 200"]
    assert await texts(world, source, LogFilter(text="0%")) == ["100% done"]
    assert await texts(world, source, LogFilter(text="a_b")) == ["a_b\\c"]
    assert await texts(world, source, LogFilter(text="b\\c")) == ["a_b\\c"]
    assert await texts(world, source, LogFilter(text="%")) == ["100% done"]
    everything = await texts(world, source, EVERYTHING)
    for words, gone in (("get /HEALTH", "GET /health 200"), ("%", "100% done"), ("b\\c", "a_b\\c")):
        kept = await texts(world, source, LogFilter(exclude=words))
        assert kept == [line for line in everything if line != gone]
    assert await texts(world, source, LogFilter(text="GET", exclude="health")) == [
        line for line in everything if "GET" in line.upper() and "health" not in line.lower()
    ]
    second, third = BASE + timedelta(seconds=1), BASE + timedelta(seconds=2)
    assert await texts(world, source, LogFilter(from_time=second, to_time=third)) == ["100% done"]


async def test_a_search_that_takes_too_long_is_a_clear_refusal(
    world: World, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(reading, "SEARCH_TIMEOUT_S", 0.5)
        async with world.database.transaction() as other:
            # However fast the machine searches, it does not find anything before this ends.
            await other.execute(text("LOCK TABLE log_lines IN ACCESS EXCLUSIVE MODE"))
            with pytest.raises(InvalidInputError) as refused:
                await page(world, source, LogFilter(text="not there"))
    assert refused.value.code == "log_search_too_broad"
    assert await page(world, source, LogFilter(text="not there")) == []


async def steps(tail: Tail) -> list[TailedLine]:
    return [line async for line in tail.step()]


def shown(lines: list[TailedLine]) -> list[str]:
    return [line.line.text for line in lines]


async def test_a_tail_gets_what_arrives(world: World, source: Source) -> None:
    await store(world, source, (0, "before"), (1, "just before"))
    tail = Tail(world.database, scope_of(source), EVERYTHING)
    assert shown(await tail.begin(newest=1)) == ["just before"]
    assert await steps(tail) == []
    await store(world, source, (2, "now"), (2, "and now"))
    assert shown(await steps(tail)) == ["now", "and now"]
    assert await steps(tail) == []


async def test_a_line_that_is_late_is_not_missed(world: World, source: Source) -> None:
    other = await new_source(world, source.container_id)
    tail = Tail(world.database, scope_of(source), EVERYTHING)
    await tail.begin(newest=0)
    await store(world, source, (100, "young"))
    assert shown(await steps(tail)) == ["young"]
    await store(world, other, (1, "old, but stored later"))
    assert shown(await steps(tail)) == ["old, but stored later"]


async def test_replicas_are_merged_by_time_and_new_ones_come_whole(world: World, source: Source) -> None:
    tail = Tail(world.database, scope_of(source), EVERYTHING)
    await tail.begin(newest=0)
    new = await new_source(world, source.container_id)
    await store(world, source, (1, "a1"), (3, "a3"))
    await store(world, new, (2, "b2"), (4, "b4"))
    async with world.database.transaction() as session:
        await finish(session, new)
    assert shown(await steps(tail)) == ["a1", "b2", "a3", "b4"]
    assert await steps(tail) == []


async def test_resumed_after_every_line(world: World, source: Source) -> None:
    """A client that loses its connection after each single line, while replicas come and end."""
    tail = Tail(world.database, scope_of(source), EVERYTHING)
    await tail.begin(newest=0)
    position = None
    sources, found, expected = [source], list[str](), set[str]()
    for number in range(8):
        if number % 3 == 1:
            sources.append(await new_source(world, source.container_id))
        for index, one in enumerate(sources[-2:]):
            lines = [(number, f"{number} {index} {repeat}") for repeat in range(2)]
            await store(world, one, *lines)
            expected |= {text for _, text in lines}
        if number % 3 == 2:
            async with world.database.transaction() as session:
                await finish(session, sources[-1])
        while True:
            tail = tail if position is None else Tail(world.database, scope_of(source), EVERYTHING)
            if position is not None:
                tail.resume(decode_tail(encode_tail(position)))
            first = await anext(tail.step(), None)
            if first is None:
                break
            found.append(first.line.text)
            position = first.position
    assert len(found) == len(expected)
    assert set(found) == expected


async def test_more_than_one_step_at_once(world: World, source: Source) -> None:
    tail = Tail(world.database, scope_of(source), EVERYTHING)
    await tail.begin(newest=0)
    count = 2 * STEP_LINES + 100
    await store(world, source, *((0, str(number)) for number in range(count)))
    assert shown(await steps(tail)) == [str(number) for number in range(count)]


async def test_a_filtered_tail(world: World, source: Source) -> None:
    tail = Tail(world.database, scope_of(source), LogFilter(text="yes"))
    await tail.begin(newest=0)
    await store(world, source, (0, "no"), (1, "yes 1"), (2, "no"))
    assert shown(await steps(tail)) == ["yes 1"]
    await store(world, source, (3, "YES 2"))
    assert shown(await steps(tail)) == ["YES 2"]


async def test_a_position_of_another_container_shows_nothing_of_it(world: World, source: Source) -> None:
    foreign = await new_source(world, await world.new_container())
    foreign_tail = Tail(world.database, scope_of(foreign), EVERYTHING)
    await foreign_tail.begin(newest=0)
    await store(world, foreign, (0, "theirs"))
    position = (await steps(foreign_tail))[0].position
    tail = Tail(world.database, scope_of(source), EVERYTHING)
    tail.resume(decode_tail(encode_tail(type(position)(position.as_of, {foreign.replica_id: 0}))))
    assert await steps(tail) == []


async def test_a_project_shows_all_its_containers_also_deleted_ones(world: World, source: Source) -> None:
    other = await new_source(world, await world.new_container())
    deleted = await new_source(world, await world.new_container())
    for index in range(5):
        for name, one in (("a", source), ("b", other), ("c", deleted)):
            await store(world, one, (index, f"{name} {index} first"), (index, f"{name} {index} second"))
    # One that printed more than the others together, most of it later and much of it at one moment.
    busy = await new_source(world, await world.new_container())
    await store(world, busy, *((min(3 + index, 9), f"d {index}") for index in range(40)))
    async with world.database.transaction() as session:
        await session.execute(
            text("UPDATE containers SET deleted_at = now() WHERE id = :id"), {"id": deleted.container_id}
        )
    project = LogScope(world.project_id, None)
    async with world.database.transaction() as session:
        newest_first = (await list_lines(session, project, EVERYTHING, 100)).items
        oldest_first = (await list_lines(session, project, EVERYTHING, 100, order=Order.OLDEST_FIRST)).items
    assert len(newest_first) == 70
    assert newest_first == oldest_first[::-1]
    assert newest_first == sorted(newest_first, key=lambda line: (line.time, line.sequence), reverse=True)
    for order, expected in ((Order.NEWEST_FIRST, newest_first), (Order.OLDEST_FIRST, oldest_first)):
        found: list[StoredLine] = []
        while True:
            async with world.database.transaction() as session:
                beyond = found[-1].position if found else None
                lines = (await list_lines(session, project, EVERYTHING, 4, beyond, order)).items
            if not lines:
                break
            found += lines
        assert found == expected


async def test_a_container_of_another_project_is_not_in_ours(world: World, source: Source) -> None:
    await store(world, source, (0, "theirs"))
    async with world.database.transaction() as session:
        for scope in (LogScope("prj_other", source.container_id), LogScope("prj_other", None)):
            assert (await list_lines(session, scope, EVERYTHING, 10)).items == []
            assert await count_lines(session, scope, EVERYTHING, steps_for(BASE, BASE + HOUR, 60)) == {}
            assert (await reading.tail_state(session, scope, None, [source.replica_id])).replicas == []


async def test_counts(world: World, source: Source) -> None:
    other = await new_source(world, await world.new_container())
    await store(world, source, (0, "a"), (119, "b"), (120, "c", ERR), (3599, "d"), (3600, "too late"))
    await store(world, other, (121, "e", ERR))
    minutes = steps_for(BASE, BASE + HOUR, 60)
    between = LogFilter(from_time=BASE, to_time=BASE + HOUR)
    async with world.database.transaction() as session:
        own = await count_lines(session, scope_of(source), between, minutes)
        all_of_them = await count_lines(session, LogScope(world.project_id, None), between, minutes)
    assert minutes.step_s == 60
    assert own == {(0, OUT): 1, (1, OUT): 1, (2, ERR): 1, (59, OUT): 1}
    assert all_of_them == {**own, (2, ERR): 2}


async def test_a_tail_of_a_project(world: World, source: Source) -> None:
    tail = Tail(world.database, LogScope(world.project_id, None), EVERYTHING)
    await tail.begin(newest=0)
    new = await new_source(world, await world.new_container())
    await store(world, source, (1, "a1"), (3, "a3"))
    await store(world, new, (2, "b2"))
    assert shown(await steps(tail)) == ["a1", "b2", "a3"]


LONG = "é" * 8000
"""16,000 bytes."""


async def sent_bytes(session: AsyncSession, read: Callable[[], Awaitable[object]]) -> int:
    """What Postgres sends for it: counted where the driver hands it over."""
    received = 0
    raw = (await (await session.connection()).get_raw_connection()).driver_connection
    assert raw is not None
    protocol = raw._protocol
    receive = type(protocol).data_received

    class Counting:
        def data_received(self, data: bytes) -> None:
            nonlocal received
            received += len(data)
            receive(protocol, data)

        def __getattr__(self, name: str) -> object:
            return getattr(protocol, name)

    transport = raw._transport
    transport.set_protocol(Counting())
    try:
        await read()
    finally:
        transport.set_protocol(protocol)
    return received


async def test_long_lines_stay_in_the_database(world: World, source: Source) -> None:
    """A thousand lines of 16 kB: a page is what fits into 2 MiB, and no more than that is read."""
    await store(world, source, *((second, f"{second} {LONG}") for second in range(1000)))
    pages: list[Lines] = []
    for scope in (scope_of(source), LogScope(source.project_id, None)):
        async with world.database.transaction() as session:

            async def read(session: AsyncSession = session, scope: LogScope = scope) -> None:
                pages.append(await list_lines(session, scope, EVERYTHING, 1000))

            assert MOST_BYTES - 100_000 < await sent_bytes(session, read) < MOST_BYTES + 100_000
    assert pages[0] == pages[1]
    assert 120 < len(pages[0].items) < 140
    assert pages[0].more

    seen: list[int] = []
    beyond: LinePosition | None = None
    more = True
    async with world.database.transaction() as session:
        while more:
            lines = await list_lines(session, scope_of(source), EVERYTHING, 1000, beyond, Order.OLDEST_FIRST)
            seen += [int(line.text.partition(" ")[0]) for line in lines.items]
            beyond, more = lines.items[-1].position, lines.more
    assert seen == list(range(1000))


async def test_a_tail_of_long_lines(world: World, source: Source) -> None:
    other = await new_source(world, source.container_id)
    tail = Tail(world.database, scope_of(source), EVERYTHING)
    await tail.begin(0)
    for one in (source, other):
        await store(world, one, *((second, f"{second} {LONG}") for second in range(200)))
    arrived: dict[str, list[int]] = {source.replica_id: [], other.replica_id: []}
    async for tailed in tail.step():
        arrived[tailed.line.replica_id].append(int(tailed.line.text.partition(" ")[0]))
    assert list(arrived.values()) == [list(range(200))] * 2

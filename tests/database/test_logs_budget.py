"""What is stored of a container is counted, and beyond its budget the oldest lines go."""

from datetime import UTC, datetime, timedelta

import pytest
from api_support import Api
from api_support import api_fixture as api_fixture
from log_support import KEYRING, OUT, Printer, World, new_world
from sqlalchemy import delete, func, select, update

from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.engines import Engines
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.settings import Settings
from moorage.telemetry.logs import repository
from moorage.telemetry.logs.budget.models import LogVolumeRow
from moorage.telemetry.logs.budget.repository import list_largest
from moorage.telemetry.logs.collector import BUDGETS, STORAGE, LogCollector
from moorage.telemetry.logs.copying import Source
from moorage.telemetry.logs.cursor import Cursor, RawLine
from moorage.telemetry.logs.models import LogLineRow
from moorage.telemetry.partition_repository import create_partition

BUDGET = 2**20
TEXT = "x" * 724
"""With what it takes beside its text, a line is a thousandth of the budget or so."""


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def store(world: World, source: Source, first: int, count: int, time: datetime) -> None:
    """A millisecond apart, as the follower stores a batch."""
    begin_ns = int(time.timestamp()) * 10**9
    lines = [
        RawLine(number, begin_ns + number * 10**6, OUT, b"", 0) for number in range(first, first + count)
    ]
    async with world.database.transaction() as session:
        cursor = await repository.find_or_create_cursor(session, source)
        behind = Cursor(0, cursor.positions, first + count)
        await repository.store_lines(session, source, lines, [TEXT] * count, behind)


async def sequences(world: World, container_id: str) -> list[int]:
    query = select(LogLineRow.sequence).where(LogLineRow.container_id == container_id)
    async with world.database.transaction() as session:
        return list((await session.execute(query.order_by(LogLineRow.sequence))).scalars())


def collector(world: World) -> LogCollector:
    settings = Settings(log_bytes_per_container=BUDGET)
    return LogCollector(
        world.database, Engines({LOCAL_ENGINE: world.engine}), KEYRING, settings, system_clock
    )


async def test_the_oldest_go_of_the_one_that_has_too_much(world: World) -> None:
    loud_id, quiet_id = await world.new_container(), await world.new_container()
    loud = [await world.new_replica(loud_id, Printer([])) for _ in range(2)]
    quiet = await world.new_replica(quiet_id, Printer([]))
    now = datetime.now(UTC)
    await store(world, quiet, 0, 900, now - timedelta(hours=2))
    await store(world, loud[0], 0, 900, now - timedelta(hours=1))
    await store(world, loud[1], 0, 900, now)
    await collector(world).reconcile(BUDGETS, world.lease)
    assert len(await sequences(world, quiet_id)) == 900
    async with world.database.transaction() as session:
        counted = select(LogLineRow.replica_id, func.count()).group_by(LogLineRow.replica_id)
        kept = {row.replica_id: row[1] for row in await session.execute(counted)}
        oldest_kept = await session.scalar(
            select(func.min(LogLineRow.sequence)).where(LogLineRow.replica_id == loud[0].replica_id)
        )
        loudest, other = await list_largest(session, 10)
    left = int(BUDGET * 0.95) // 1024
    assert kept[loud[1].replica_id] == 900, "the newest stay"
    assert kept[loud[0].replica_id] == pytest.approx(left - 900, abs=2)
    assert oldest_kept == 900 - kept[loud[0].replica_id], "and of the older ones the last"
    assert (loudest.container_id, loudest.lines) == (loud_id, kept[loud[0].replica_id] + 900)
    assert loudest.lines + loudest.dropped_lines == 1800
    assert loudest.bytes == pytest.approx(loudest.lines * 1024, rel=0.001)
    assert (other.container_id, other.lines, other.dropped_lines) == (quiet_id, 900, 0)
    # Within its budget now, it is left alone.
    await collector(world).reconcile(BUDGETS, world.lease)
    assert len(await sequences(world, loud_id)) == loudest.lines


async def test_an_older_day_goes_first_and_counts_go_with_their_day(world: World) -> None:
    container_id = await world.new_container()
    source = await world.new_replica(container_id, Printer([]))
    now = datetime.now(UTC)
    yesterday = now - timedelta(days=1)
    await store(world, source, 0, 700, yesterday)
    async with world.database.transaction() as session:
        await create_partition(session, LogLineRow.__tablename__, yesterday.date())
        await session.execute(update(LogLineRow).values(written_at=yesterday))
        await session.execute(update(LogVolumeRow).values(day=yesterday.date()))
    await store(world, source, 700, 700, now)
    await collector(world).reconcile(BUDGETS, world.lease)
    kept = await sequences(world, container_id)
    assert kept == list(range(1400 - len(kept), 1400))
    assert len(kept) == pytest.approx(int(BUDGET * 0.95) // 1024, abs=2)
    async with world.database.transaction() as session:
        await session.execute(
            update(LogVolumeRow)
            .where(LogVolumeRow.day == yesterday.date())
            .values(day=yesterday.date() - timedelta(days=20))
        )
    await collector(world).reconcile(STORAGE, world.lease)
    async with world.database.transaction() as session:
        assert list((await session.execute(select(LogVolumeRow.day))).scalars()) == [now.date()]


async def test_lines_that_are_gone_already_count_no_more(world: World) -> None:
    container_id = await world.new_container()
    source = await world.new_replica(container_id, Printer([]))
    await store(world, source, 0, 1500, datetime.now(UTC))
    async with world.database.transaction() as session:
        await session.execute(delete(LogLineRow))
    await collector(world).reconcile(BUDGETS, world.lease)
    async with world.database.transaction() as session:
        (volume,) = await list_largest(session, 10)
    assert (volume.bytes, volume.lines) == (0, 0)


async def test_the_operator_sees_how_much_and_whose(api: Api) -> None:
    user_id, _ = await api.new_person("ada@example.com")
    project_id = await api.new_project(
        await api.new_organization("acme", {user_id: "admin"}), "main", user_id
    )
    container_id = await api.new_container(project_id, "chat")
    async with api.database.transaction() as session:
        for owner, size in ((container_id, 5000), ("ctr_deleted", 9000)):
            session.add(
                LogVolumeRow(
                    container_id=owner, day=datetime.now(UTC).date(), bytes=size, lines=3, dropped_lines=7
                )
            )
    found = (await api.get(api.operator, "/operator/logs", params={"limit": 2})).json()
    assert found["bytes_per_container"] == 2**30
    assert found["stored_bytes"] > 0
    assert [(one["container_id"], one["project_id"], one["bytes"]) for one in found["containers"]] == [
        ("ctr_deleted", None, 9000),
        (container_id, project_id, 5000),
    ]
    metrics = (await api.ask(api.operator, "GET", "/metrics")).text
    assert f'moorage_log_bytes{{container="{container_id}"}} 5000' in metrics

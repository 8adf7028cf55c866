"""Days come and go; migrations go up and down on a filled table."""

from datetime import timedelta

import pytest
from log_support import KEYRING, Printer, World, new_world, numbered
from sqlalchemy import func, select, text

from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.engines import Engines
from moorage.entrypoints.migrate import migrate
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import LeaseLostError
from moorage.kit.settings import Settings
from moorage.telemetry.logs import repository
from moorage.telemetry.logs.collector import BUDGETS, STORAGE, LogCollector
from moorage.telemetry.logs.models import LogCursorRow, LogLineRow
from moorage.telemetry.partition_repository import create_partition, drop_partition, list_partitions

LOG_LINES = LogLineRow.__tablename__


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


def collector(world: World) -> LogCollector:
    return LogCollector(
        world.database,
        Engines({LOCAL_ENGINE: world.engine}),
        KEYRING,
        Settings(log_retention_days=7),
        system_clock,
    )


async def write_on_day(world: World, days_ago: int) -> None:
    async with world.database.transaction() as session:
        now = (await session.execute(select(func.now()))).scalar_one()
        await create_partition(session, LOG_LINES, (now - timedelta(days=days_ago)).date())
        session.add(
            LogLineRow(
                replica_id="rep_a",
                sequence=100 - days_ago,
                written_at=now - timedelta(days=days_ago),
                container_id="ctr_a",
                project_id="prj_a",
                time=now - timedelta(days=days_ago),
                stream=1,
                text=f"{days_ago} days ago",
            )
        )


async def texts(world: World) -> list[str]:
    async with world.database.transaction() as session:
        return list((await session.execute(select(LogLineRow.text).order_by(LogLineRow.sequence))).scalars())


async def test_retention_drops_whole_days(world: World) -> None:
    for days_ago in (9, 8, 7, 1, 0):
        await write_on_day(world, days_ago)
    await collector(world).reconcile(STORAGE, world.lease)
    assert await texts(world) == ["7 days ago", "1 days ago", "0 days ago"]
    async with world.database.transaction() as session:
        days, now = await list_partitions(session, LOG_LINES)
    assert min(days) == (now - timedelta(days=7)).date()


async def test_days_are_made_ahead(world: World) -> None:
    async with world.database.transaction() as session:
        # Of the day on which the tests began, which may be yesterday.
        days, _ = await list_partitions(session, LOG_LINES)
        for day in days:
            await drop_partition(session, LOG_LINES, day)
    await collector(world).reconcile(STORAGE, world.lease)
    async with world.database.transaction() as session:
        days, now = await list_partitions(session, LOG_LINES)
    assert days == {now.date(), (now + timedelta(days=1)).date()}


async def test_storage_and_budgets_are_due_now_and_then(world: World) -> None:
    logs = collector(world)
    assert list((await logs.due(10)).keys) == [STORAGE, BUDGETS]
    for key in (STORAGE, BUDGETS):
        await logs.reconcile(key, world.lease)
    due = await logs.due(10)
    assert not due.keys
    assert due.next_in_s == pytest.approx(10, abs=5)
    await logs.postpone(STORAGE, RuntimeError("locked"), world.lease)
    assert (await logs.due(10)).next_in_s == pytest.approx(5, abs=1)


async def test_a_former_leader_drops_nothing(world: World) -> None:
    await write_on_day(world, 20)
    async with world.database.transaction() as session:
        await session.execute(text("UPDATE leases SET token = token + 1"))
    with pytest.raises(LeaseLostError):
        await collector(world).reconcile(STORAGE, world.lease)
    assert await texts(world) == ["20 days ago"]


async def test_cursors_are_closed_and_forgotten(world: World) -> None:
    container_id = await world.new_container()
    sources = {
        name: await world.new_replica(container_id, Printer([]), state=state)
        for name, state in (("live", "routed"), ("left", "removed"), ("old", "removed"))
    }
    async with world.database.transaction() as session:
        for source in sources.values():
            await repository.find_or_create_cursor(session, source)
        old = await session.get(LogCursorRow, sources["old"].replica_id)
        assert old is not None
        old.finished_at = func.now() - timedelta(days=9)
    await collector(world).reconcile(STORAGE, world.lease)
    async with world.database.transaction() as session:
        found = {
            row.replica_id: row.finished_at for row in (await session.execute(select(LogCursorRow))).scalars()
        }
    assert found.keys() == {sources["live"].replica_id, sources["left"].replica_id}
    assert found[sources["live"].replica_id] is None
    assert found[sources["left"].replica_id] is not None


async def test_migration_down_and_up_again_on_a_filled_table(world: World, database_dsn: str) -> None:
    for days_ago in (8, 0):
        await write_on_day(world, days_ago)
    await world.new_replica(await world.new_container(), Printer(numbered(3)))
    await world.database.close()
    await migrate(database_dsn, "0001")
    async with world.database.transaction() as session:
        left = (
            "SELECT count(*) FROM pg_class WHERE relname LIKE 'log\\_lines%' OR relname LIKE 'log\\_cursors%'"
        )
        assert (await session.execute(text(left))).scalar_one() == 0
    await migrate(database_dsn)
    assert await texts(world) == []
    await write_on_day(world, 0)

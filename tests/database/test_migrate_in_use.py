"""A migration among those who use the tables."""

import asyncio

import asyncpg
import pytest

from moorage.entrypoints.migrate import migrate
from moorage.entrypoints.schema_repository import EXPECTED_VERSION
from moorage.kit.errors import SetupError

BEFORE = f"{int(EXPECTED_VERSION) - 1:04}"
USES = "LOCK TABLE alembic_version IN SHARE MODE"
"""Every migration writes there, so it is in the way of each."""
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


async def version(connection: asyncpg.Connection) -> str:
    found: str = await connection.fetchval("SELECT version_num FROM alembic_version")
    return found


async def until_waiting(connection: asyncpg.Connection, number: int) -> None:
    async with asyncio.timeout(30):
        while await connection.fetchval(WAITING) != number:  # noqa: ASYNC110 - only Postgres knows
            await asyncio.sleep(0.02)


async def test_who_comes_after_it_does_not_wait_for_what_it_waits_for(database_dsn: str) -> None:
    await migrate(database_dsn, BEFORE)
    holder, other = await asyncpg.connect(database_dsn), await asyncpg.connect(database_dsn)
    async with holder.transaction():
        await holder.execute(USES)
        migrating = asyncio.create_task(migrate(database_dsn, table_within_s=0.5))
        await until_waiting(other, 1)
        async with asyncio.timeout(30):
            # It stands behind the migration, which has not got what it wants.
            async with other.transaction():
                await other.execute(USES)
            assert await version(other) == BEFORE
        assert not migrating.done()
    await migrating
    assert await version(other) == EXPECTED_VERSION
    await holder.close()
    await other.close()


async def test_it_ends_with_a_sentence_and_changes_nothing(database_dsn: str) -> None:
    await migrate(database_dsn, BEFORE)
    holder = await asyncpg.connect(database_dsn)
    async with holder.transaction():
        await holder.execute(USES)
        with pytest.raises(SetupError, match="it was in constant use"):
            await migrate(database_dsn, table_within_s=0.2, tries=2)
        assert await version(holder) == BEFORE
    await migrate(database_dsn)
    assert await version(holder) == EXPECTED_VERSION
    await holder.close()

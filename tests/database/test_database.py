"""The pool of connections."""

import asyncio

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.database import Database


async def test_a_connection_that_the_server_closed_is_not_handed_out(
    database: Database, database_dsn: str
) -> None:
    async with database.session() as one, database.session() as other:
        pids = [await session.scalar(text("SELECT pg_backend_pid()")) for session in (one, other)]
        closings = [await _closing(session) for session in (one, other)]
    elsewhere = Database(database_dsn, pool_size=1)
    async with elsewhere.session() as session:
        for pid in pids:
            await session.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
    await elsewhere.close()
    async with asyncio.timeout(30):
        for closed in closings:
            await closed.wait()

    async with database.session() as one, database.session() as other:
        fresh = [await session.scalar(text("SELECT pg_backend_pid()")) for session in (one, other)]
    assert not set(fresh) & set(pids)


async def _closing(session: AsyncSession) -> asyncio.Event:
    """Set when the session's connection has heard that it is closed."""
    closed = asyncio.Event()
    driver = (await (await session.connection()).get_raw_connection()).driver_connection
    assert driver is not None
    driver.add_termination_listener(lambda _: closed.set())
    return closed

"""Writes down what the watchdog of this process noticed, so that one place can show it for every role."""

import socket

import structlog
from sqlalchemy.exc import SQLAlchemyError

from moorage.kit.clock import Clock
from moorage.kit.database import Database
from moorage.kit.stalls.repository import add_stalls
from moorage.kit.stalls.watchdog import Stalls, StallWatchdog

log = structlog.get_logger()

EVERY_S = 10.0
START_AFTER_S = 3.0
"""While a role loads what it needs nobody waits for its loop."""


async def watch_loop(role: str, dsn: str, clock: Clock) -> None:
    """Until it is cancelled. What cannot be written stays in the log."""
    await clock.sleep(START_AFTER_S)
    watchdog, database = StallWatchdog(), Database(dsn, pool_size=1)
    unwritten: list[Stalls] = [Stalls()]
    with watchdog.watching():
        try:
            while True:
                unwritten = await _written(database, role, unwritten)
                await clock.sleep(EVERY_S)
                stalls = watchdog.take()
                if stalls.count:
                    unwritten.append(stalls)
        finally:
            await database.close()


async def _written(database: Database, role: str, unwritten: list[Stalls]) -> list[Stalls]:
    """What is left to be written."""
    if not unwritten:
        return []
    total = Stalls(
        sum(one.count for one in unwritten),
        *max((one.longest_s, one.where) for one in unwritten),
    )
    try:
        async with database.transaction() as session:
            await add_stalls(session, role, socket.gethostname(), total)
    except (TimeoutError, OSError, SQLAlchemyError) as exc:
        log.warning("loop_stalls_not_written", error=str(exc)[:200])
        return [total]
    # Stalls are rare; a connection for them is not kept.
    await database.close()
    return []

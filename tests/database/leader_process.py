"""A leader to be stopped, in a process of its own: `python leader_process.py DSN`.

It says `guarded` in the middle of a transaction, and goes on when it reads a line: says what became of that transaction, and of
whatever else a leader would do next.
"""

import asyncio
import sys

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import LeaseLostError
from moorage.reconcile.lease import Lease, LeaseKeeper

WRITE_SQL = text("INSERT INTO gateways VALUES ('gtw_old', now(), now())")


async def main(dsn: str) -> None:
    database = Database(dsn, pool_size=2)
    keeper = LeaseKeeper(database, "work", "old", system_clock)
    lease = await keeper.acquire()
    assert lease is not None
    try:
        async with database.transaction() as session:
            await lease.guard(session)
            await session.execute(WRITE_SQL)
            print("guarded", flush=True)
            sys.stdin.readline()
        print("committed", flush=True)
    except DBAPIError:
        print("undone", flush=True)
    print(await _write(database, lease), flush=True)
    print("renewed" if await keeper._renew(lease) else "not renewed", flush=True)
    await database.close()


async def _write(database: Database, lease: Lease) -> str:
    try:
        async with database.transaction() as session:
            await lease.guard(session)
            await session.execute(WRITE_SQL)
    except LeaseLostError:
        return "refused"
    return "written"


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

"""No flood of requests makes the gateway agent's loop compute for more than 50 ms at a stretch."""

import asyncio
import contextlib
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from moorage.gateway.request_reader import RequestReader
from moorage.kit import ids
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.stalls.watchdog import Stalls, StallWatchdog
from moorage.telemetry.partition_repository import create_partition
from moorage.telemetry.requests import repository

REQUESTS = 15_000
"""That failed: each is kept."""
TIMES = 3


def lines(count: int) -> bytes:
    project, container, replica = ids.new_project_id(), ids.new_container_id(), ids.new_replica_id()
    began_s = int(system_clock.now().timestamp()) - 30
    rest = f"{replica} {project}:9007199254740992:{ids.new_api_key_id()} {project}:{container}:7 192.0.2.7"
    return b"".join(
        f"req_{number} {began_s} 250 0 50 0 3 1 40 889 502 210 4700 SH {rest}\n".encode()
        for number in range(count)
    )


async def stored(database: Database) -> int:
    async with database.reading() as session:
        return int((await session.execute(text("SELECT count(*) FROM request_records"))).scalar_one())


@pytest.mark.long
async def test_a_flood_of_requests_that_fail(database: Database, short_folder: Path) -> None:
    async with database.transaction() as session:
        for table in repository.TABLES:
            await create_partition(session, table, datetime.now(UTC).date())
    path = short_folder / "requests.sock"
    reader = RequestReader(ids.new_gateway_id(), database, path, system_clock, records_per_s=1000)
    reading = asyncio.create_task(reader.run())
    flood = lines(REQUESTS)

    def send(sent: bytes) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(sent)

    async def until_stored(count: int) -> None:
        while await stored(database) < count:  # noqa: ASYNC110 - another task stores them
            await asyncio.sleep(0.05)

    try:
        async with asyncio.timeout(240):
            while not path.exists():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
            # What is derived once is derived with the first.
            await asyncio.to_thread(send, lines(1))
            await until_stored(1)
            # What a flood costs, it costs each time; what others take from this machine, now and then.
            for time in range(1, TIMES + 1):
                watchdog = StallWatchdog()
                with watchdog.watching():
                    sending = threading.Thread(target=send, args=(flood,))
                    sending.start()
                    await until_stored(time * REQUESTS + 1)
                    await asyncio.sleep(0.06)  # the watchdog's next word
                    found = watchdog.take()
                sending.join()
                if found == Stalls():
                    break
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
    assert found == Stalls()

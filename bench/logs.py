"""What the collection and the reading of logs cost.

    python bench/logs.py [ingest] [flood] [read] [--replicas 30] [--lines 600000] [--seconds 20] [--stored 10000000]

`ingest` and `flood` run the controller's log collector against a stand-in engine that gives Docker's bytes without
dockerd, and a Postgres of their own with its default durability; `read` fills that Postgres with the lines of the same
number of containers and asks for pages.
"""

import argparse
import asyncio
import contextlib
import os
import resource
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import asyncpg
import uvloop
from logs_sources import Replica, StandInEngine, frames, print_steadily, steady_output
from scale_world import KEYRING, World, running_world
from sqlalchemy import text

from moorage.engines.base import LOCAL_ENGINE, Engine
from moorage.engines.engines import Engines
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener
from moorage.kit.ids import ReplicaId
from moorage.kit.logging import configure_logging
from moorage.kit.settings import Settings
from moorage.reconcile.driver import Driver
from moorage.telemetry.logs.buffer import BATCH_LINES
from moorage.telemetry.logs.collector import WRITERS_AT_ONCE, LogCollector
from moorage.telemetry.logs.reading.positions import LinePosition
from moorage.telemetry.logs.reading.repository import LogFilter, LogScope, list_lines
from moorage.telemetry.logs.reading.tail import Tail

TARGET_LINES_PER_S = 20_000
TARGET_PAGE_MS = 50
TARGET_TAIL_S = 1.0
PAGE = 200
PATIENCE_S = 120.0
LINE_KIB = 0.5
"""What a line of this benchmark takes in memory as an object, all in all."""
FIXED_MIB = 32
"""Connections, prepared statements, and what Python keeps of what it had."""
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cpu:
    collector_s: float
    postgres_s: float


@contextlib.asynccontextmanager
async def collecting(world: World, replicas: dict[str, Replica]) -> AsyncIterator[Database]:
    database = Database(world.dsn, pool_size=world.settings.database_pool_size)
    listener = Listener(world.dsn)
    engine = cast(Engine, StandInEngine(replicas))
    logs = LogCollector(database, Engines({LOCAL_ENGINE: engine}), KEYRING, Settings(), system_clock)
    driver = Driver(logs, database, listener, "bench", system_clock)
    tasks = [asyncio.create_task(listener.run()), asyncio.create_task(driver.run())]
    try:
        yield database
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await database.close()


async def replicas_of(dsn: str) -> dict[str, Replica]:
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch("SELECT id, engine_id FROM replicas ORDER BY host_port")
    await connection.close()
    return {row["engine_id"]: Replica(ReplicaId(row["id"])) for row in rows}


async def ingest(world: World, lines: int, seconds: float) -> None:
    """First everything at once, then the target's rate for a while."""
    replicas = await replicas_of(world.dsn)
    each, begin_ns = lines // len(replicas), time.time_ns() - 3600 * 10**9
    backlog = frames(each, 0, begin_ns, 1_500_000)
    # Made before the clock runs: who prints is not what is measured.
    output = steady_output(len(replicas), TARGET_LINES_PER_S, seconds)
    async with collecting(world, replicas) as database, watched_memory(replicas) as grown_mib:
        for replica in replicas.values():
            replica.prints(backlog)
        before, began_s = cpu_of(world), time.monotonic()
        await until_stored(database, each * len(replicas))
        took_s, spent = time.monotonic() - began_s, since(before, world)
        total = each * len(replicas)
        print(
            f"backlog of {total} lines from {len(replicas)} replicas: {total / took_s:,.0f} lines/s, {per_100k(spent, total)}"
        )

        printed = sum(data.count(b"\n") for data in output) * len(replicas)
        before, began_s = cpu_of(world), time.monotonic()
        await print_steadily(list(replicas.values()), output)
        rate = printed / (time.monotonic() - began_s)
        behind = total + printed - await stored(database)
        last_s = time.monotonic()
        await until_stored(database, total + printed)
        caught_up_s = time.monotonic() - last_s
        spent = since(before, world)
        print(
            f"steadily for {seconds:.0f} s: {rate:,.0f} lines/s, {per_100k(spent, printed)}; at the end {behind} lines "
            f"behind, stored {caught_up_s:.2f} s later"
        )
        await check_complete(database, len(replicas))
    met("sustained ingest", rate >= TARGET_LINES_PER_S * 0.99 and caught_up_s < 1)
    # Each replica fills one batch while another of its is stored; a few are encoded at a time.
    buffers_mib = (2 * len(replicas) + 2 * WRITERS_AT_ONCE) * BATCH_LINES * LINE_KIB / 1024
    bound_mib = buffers_mib + FIXED_MIB
    print(f"memory grew by {max(grown_mib):.0f} MiB at most, however many lines; bound: {bound_mib:.0f} MiB")
    met("memory bounded", max(grown_mib) <= bound_mib)


@contextlib.asynccontextmanager
async def watched_memory(replicas: dict[str, Replica]) -> AsyncIterator[list[float]]:
    """By how much more than at the beginning this process has resident, ten times a second; without what the replicas
    printed, which the stand-in keeps."""
    before_kib, grown_mib = resident_kib(), [0.0]

    async def watch() -> None:
        while True:
            await asyncio.sleep(0.1)
            kept_kib = sum(replica.printed_bytes for replica in replicas.values()) / 1024
            grown_mib.append((resident_kib() - before_kib - kept_kib) / 1024)

    watching = asyncio.create_task(watch())
    try:
        yield grown_mib
    finally:
        watching.cancel()


def resident_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


async def flood(world: World, seconds: float) -> None:
    """One replica prints as fast as it can be read; how late is a line of another in a live tail?"""
    replicas = await replicas_of(world.dsn)
    loud, quiet = list(replicas.values())[:2]
    async with collecting(world, replicas) as database:
        connection = await asyncpg.connect(world.dsn)
        quiet_id = await connection.fetchval(
            "SELECT container_id FROM replicas WHERE id = $1", quiet.replica_id
        )
        tail = Tail(database, LogScope(world.project_id, quiet_id), LogFilter())
        await tail.begin(0)
        stop = asyncio.Event()

        async def print_without_end() -> int:
            """A thousand lines a millisecond by their own times; as many as are read."""
            data, printed = frames(1000, 0, time.time_ns(), 1000), 0
            while not stop.is_set():
                if len(loud.pieces) - loud.read < 4:
                    loud.prints(data)
                    printed += 1000
                await asyncio.sleep(0)
            return printed

        async def tailed() -> list[float]:
            delays_s, end_s, number = [], time.monotonic() + seconds, 0
            while time.monotonic() < end_s:
                printed_s = time.monotonic()
                quiet.prints(frames(1, 0, time.time_ns(), 1))
                number += 1
                got = 0
                while not got:
                    await asyncio.sleep(0.01)
                    got = len([line async for line in tail.step()])
                delays_s.append(time.monotonic() - printed_s)
            return delays_s

        flooding = asyncio.create_task(print_without_end())
        delays_s = await tailed()
        stop.set()
        printed = await flooding
        kept = await connection.fetchval(
            "SELECT count(*) FROM log_lines WHERE replica_id = $1", loud.replica_id
        )
        marker = "SELECT text FROM log_lines WHERE replica_id = $1 AND text LIKE '[moorage%' ORDER BY sequence DESC LIMIT 1"
        print(
            f"of {printed:,} lines of the loud one {kept:,} were stored, with {await connection.fetchval(marker, loud.replica_id)!r} among them"
        )
        await connection.close()
    worst_s = max(delays_s)
    print(
        f"{len(delays_s)} lines of the quiet one: {statistics.median(delays_s):.2f} s to a reader of its tail at the "
        f"median, {worst_s:.2f} s at most (the API's own polling, every 0.5 s, left out)"
    )
    met("tail latency beside a flood", worst_s <= TARGET_TAIL_S)


async def read(world: World, count: int) -> None:
    connection = await asyncpg.connect(world.dsn, command_timeout=900)
    print(f"filling with {count:,} lines ...", flush=True)
    await fill(connection, world.project_id, count)
    busiest = await connection.fetchval("SELECT container_id FROM replicas ORDER BY host_port LIMIT 1")
    per_container = count // len(world.container_ids)
    middle = await connection.fetchrow(
        "SELECT time, sequence, replica_id FROM log_lines WHERE container_id = $1 ORDER BY time LIMIT 1 OFFSET $2",
        busiest,
        per_container // 100,
    )
    size = await connection.fetchval(
        "SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits WHERE inhparent = 'log_lines'::regclass"
    )
    print(f"{size / 2**30:.1f} GiB on disk, indexes included")
    await connection.close()
    deep = LinePosition(middle["time"], middle["sequence"], middle["replica_id"])
    own, project = LogScope(world.project_id, busiest), LogScope(world.project_id, None)
    database = Database(world.dsn, pool_size=2)
    worst_ms = 0.0
    for what, scope, beyond in (
        ("newest of a container", own, None),
        ("deep in its past", own, deep),
        ("newest of the project", project, None),
        ("deep in its past", project, deep),
    ):

        async def page(scope: LogScope = scope, beyond: LinePosition | None = beyond) -> int:
            async with database.transaction() as session:
                return len((await list_lines(session, scope, LogFilter(), PAGE, beyond)).items)

        assert await page() == PAGE
        times_ms = await timed_ms(page, 300)
        p99_ms = statistics.quantiles(times_ms, n=100)[98]
        worst_ms = max(worst_ms, p99_ms)
        print(
            f"{PAGE} lines, {what}: {statistics.median(times_ms):.1f} ms at the median, {p99_ms:.1f} ms p99"
        )
    await database.close()
    met(f"pages of {count:,} lines", worst_ms <= TARGET_PAGE_MS)


async def fill(connection: asyncpg.Connection, project_id: str, count: int) -> None:
    """Evenly over the containers, a day of time, in the order in which it would have been written."""
    await connection.execute("SET synchronous_commit = off")
    await connection.execute(
        "INSERT INTO log_cursors (replica_id, container_id, next_sequence, since_ns, stdout_time_ns, stdout_chunks,"
        " stderr_time_ns, stderr_chunks) SELECT id, container_id, $1, 0, 0, 0, 0, 0 FROM replicas ON CONFLICT DO NOTHING",
        count,
    )
    # Indexes last: filling is not what is measured.
    await connection.execute(
        "DROP INDEX ix_log_lines_container_id_time; ALTER TABLE log_lines DROP CONSTRAINT pk_log_lines"
    )
    await connection.execute(
        "INSERT INTO log_lines (replica_id, sequence, container_id, project_id, time, stream, text)"
        " SELECT r.id, n, r.container_id, $1, now() - interval '1 day' * (1 - n::float8 / $2), 1 + (n % 10 = 9)::int,"
        " 'INFO: 10.0.3.17:51234 POST /v1/chat/completions HTTP/1.1 200 OK prompt=812 completion=164 line ' || n"
        " FROM generate_series(0, $2::bigint - 1) n"
        " JOIN (SELECT id, container_id, row_number() OVER (ORDER BY host_port) - 1 AS number FROM replicas) r"
        " ON r.number = n % (SELECT count(*) FROM replicas)",
        project_id,
        count,
    )
    await connection.execute("SET maintenance_work_mem = '512MB'")
    await connection.execute(
        "ALTER TABLE log_lines ADD CONSTRAINT pk_log_lines PRIMARY KEY (replica_id, sequence, written_at)"
    )
    await connection.execute(
        "CREATE INDEX ix_log_lines_container_id_time ON log_lines (container_id, time, sequence, replica_id)"
    )
    await connection.execute("VACUUM ANALYZE log_lines")


async def timed_ms(call: Callable[[], Awaitable[object]], times: int) -> list[float]:
    found = []
    for _ in range(times):
        began_s = time.perf_counter()
        await call()
        found.append((time.perf_counter() - began_s) * 1000)
    return found


async def stored(database: Database) -> int:
    async with database.transaction() as session:
        return int(
            (
                await session.execute(text("SELECT coalesce(sum(next_sequence), 0) FROM log_cursors"))
            ).scalar_one()
        )


async def until_stored(database: Database, count: int) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while await stored(database) < count:
        assert time.monotonic() < deadline_s, f"only {await stored(database)} of {count} lines were stored"
        await asyncio.sleep(0.05)


async def check_complete(database: Database, replicas: int) -> None:
    """As many rows as the cursors say, no sequence twice, none missing."""
    query = (
        "SELECT count(*) FROM log_cursors c JOIN (SELECT replica_id, count(*) AS lines, count(DISTINCT sequence) AS"
        " numbers, max(sequence) + 1 AS next FROM log_lines GROUP BY replica_id) l USING (replica_id)"
        " WHERE l.lines = c.next_sequence AND l.numbers = l.lines AND l.next = l.lines"
    )
    async with database.transaction() as session:
        complete = (await session.execute(text(query))).scalar_one()
    assert complete == replicas, f"only {complete} of {replicas} replicas are complete"
    print(f"every line of {complete} replicas is there, once")


def cpu_of(world: World) -> Cpu:
    own = resource.getrusage(resource.RUSAGE_SELF)
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            name_end = (line := stat.read_text()).rindex(")")
            fields = line[name_end + 2 :].split()
            if int(stat.parent.name) == world.postmaster_pid:
                ticks += sum(int(fields[at]) for at in (11, 12, 13, 14))
            elif int(fields[1]) == world.postmaster_pid:
                ticks += int(fields[11]) + int(fields[12])
    return Cpu(own.ru_utime + own.ru_stime, ticks / CLOCK_TICKS_PER_S)


def since(before: Cpu, world: World) -> Cpu:
    now = cpu_of(world)
    return Cpu(now.collector_s - before.collector_s, now.postgres_s - before.postgres_s)


def per_100k(spent: Cpu, lines: int) -> str:
    factor = 100_000 / lines
    return (
        f"{(spent.collector_s + spent.postgres_s) * factor:.2f} CPU s per 100,000 lines "
        f"(collector {spent.collector_s * factor:.2f}, Postgres {spent.postgres_s * factor:.2f})"
    )


def met(what: str, is_met: bool) -> None:
    print(f"{what}: target {'met' if is_met else 'MISSED'}", flush=True)


async def main(arguments: argparse.Namespace) -> None:
    configure_logging("error", as_json=True)
    parts = arguments.parts or ["ingest", "flood", "read"]
    for part in parts:
        print(f"\n== {part}", flush=True)
        async with running_world(arguments.replicas, options=()) as world:
            # On the controller's event loop, which cannot start a process as another user.
            await asyncio.to_thread(uvloop.run, run_part(part, world, arguments))


async def run_part(part: str, world: World, arguments: argparse.Namespace) -> None:
    if part == "ingest":
        await ingest(world, arguments.lines, arguments.seconds)
    elif part == "flood":
        await flood(world, arguments.seconds)
    else:
        await read(world, arguments.stored)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=["ingest", "flood", "read", []])
    parser.add_argument("--replicas", type=int, default=30)
    parser.add_argument("--lines", type=int, default=600_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--stored", type=int, default=10_000_000)
    asyncio.run(main(parser.parse_args()))

"""Requests are counted exactly, second by second, for the container that they were for."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from gateway_support import Container, Place, eventually, make_place, new_key, table

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.samples import SampleReporter
from moorage.gateway.table import Route
from moorage.kit import ids
from moorage.kit.clock import SystemClock, system_clock
from moorage.kit.database import Database
from moorage.kit.ids import ContainerId
from moorage.telemetry.metrics.repository import list_reports, list_samples

PROJECT = ids.new_project_id()
KEY = new_key(PROJECT)


@pytest.fixture
def place(short_folder: Path) -> Iterator[Place]:
    (short_folder / "run").mkdir()
    (short_folder / "run").chmod(0o755)
    place = make_place(short_folder, queue_limit=100, queue_timeout_s=10, server_idle_timeout_s=10)
    yield place
    place.kill()


@pytest.fixture
async def gateway(place: Place) -> DataPlane:
    gateway = place.dataplane(initial_slots=2)
    await gateway.start()
    return gateway


class ThreeSecondsAgo(SystemClock):
    """As long as it takes until another process is there."""

    def now(self) -> datetime:
        return super().now() - timedelta(seconds=3)


class HourAgo(SystemClock):
    late = timedelta(hours=1)

    def now(self) -> datetime:
        return super().now() - self.late


class Count:
    """What `usage` said in all."""

    def __init__(self, gateway: DataPlane) -> None:
        self.gateway = gateway
        self.requests: Counter[ContainerId] = Counter()
        self.errors: Counter[ContainerId] = Counter()
        self.in_flight: dict[ContainerId, int] = {}

    async def look(self) -> None:
        used = await self.gateway.usage()
        self.in_flight = {name: use.in_flight for name, use in used.items()}
        for name, use in used.items():
            self.requests[name] += use.requests
            self.errors[name] += use.errors


async def ask(client: aiohttp.ClientSession, container_id: ContainerId, path: str = "v1") -> int:
    async with client.get(f"/c/{container_id}/{path}", headers=KEY.headers) as response:
        await response.read()
        return response.status


async def test_exact_across_owners_of_a_slot(
    gateway: DataPlane, client: aiohttp.ClientSession, container: Container
) -> None:
    count = Count(gateway)
    await count.look()
    sent: Counter[ContainerId] = Counter()
    for number in range(12):
        # Each takes the slot that the one before left, and nobody looks at the counters in between.
        name = ids.new_container_id()
        await gateway.apply(table([Route(name, PROJECT, (container.server(),))], [KEY]))
        for _ in range(number + 1):
            assert await ask(client, name) == 200
            sent[name] += 1
        await gateway.apply(table([Route(name, PROJECT)], [KEY]))
        if number % 4 == 3:
            await count.look()
    await count.look()
    assert count.requests == sent
    assert sum(sent.values()) == 78


async def test_exact_across_reloads_under_load(
    gateway: DataPlane, place: Place, client: aiohttp.ClientSession, container: Container
) -> None:
    """Every growth of the pool is a reload; the clients keep their connections and ask on."""
    name, others = ids.new_container_id(), [ids.new_container_id() for _ in range(16)]
    routes = [Route(name, PROJECT, (container.server(),))]
    await gateway.apply(table(routes, [KEY]))
    count = Count(gateway)
    await count.look()
    answered, stop = Counter[int](), asyncio.Event()

    async def ask_on() -> None:
        while not stop.is_set():
            answered[await ask(client, name)] += 1

    askers = [asyncio.create_task(ask_on()) for _ in range(8)]
    pids = set()
    for growth in (2, 4, 8, 16):
        before = sum(answered.values())
        await eventually(lambda before=before: sum(answered.values()) > before + 50)
        more = [Route(other, PROJECT, (container.server(),)) for other in others[:growth]]
        await gateway.apply(table([*routes, *more], [KEY]))
        pids.add((await gateway.process.master.workers()).current_pid)
        await count.look()
    stop.set()
    await asyncio.gather(*askers)
    assert len(pids) == 4, "each growth was a reload"

    async def all_read() -> bool:
        await count.look()
        return not (await gateway.process.master.workers()).old_pids

    await eventually(all_read)
    await count.look()
    assert answered.keys() == {200}
    assert count.requests == {name: answered[200]}
    print(f"\n{answered[200]} requests over {len(pids)} reloads, {count.requests[name]} counted")


async def test_in_flight_queued_and_errors(
    gateway: DataPlane, client: aiohttp.ClientSession, container: Container
) -> None:
    name = ids.new_container_id()
    await gateway.apply(table([Route(name, PROJECT, (container.server(),), max_concurrency=2)], [KEY]))
    await gateway.usage()
    held = [asyncio.create_task(ask(client, name, "hold")) for _ in range(5)]

    async def seen() -> bool:
        used = await gateway.usage()
        return name in used and (used[name].in_flight, used[name].queued) == (5, 3)

    await eventually(seen)
    container.release.set()
    await asyncio.gather(*held)
    count = Count(gateway)
    await ask(client, name, "unavailable")
    await count.look()
    assert count.errors == {name: 1}
    assert count.in_flight.get(name, 0) == 0
    await count.look()
    assert await gateway.usage() == {}, "nothing happened, nothing is said"


async def test_samples_are_stored_and_a_silent_gateway_is_seen(
    gateway: DataPlane, client: aiohttp.ClientSession, container: Container, database: Database
) -> None:
    name, gateway_id = ids.new_container_id(), ids.new_gateway_id()
    await gateway.apply(table([Route(name, PROJECT, (container.server(),))], [KEY]))
    reporter = SampleReporter(gateway_id, database, gateway, system_clock)
    await reporter.report()
    for _ in range(7):
        await ask(client, name)
    await reporter.report()
    since = datetime.now(UTC) - timedelta(minutes=1)
    async with database.transaction() as session:
        samples = await list_samples(session, since, since + timedelta(minutes=2))
        reports = await list_reports(session, since)
    assert [(one.container_id, one.gateway_id, one.requests) for one in samples] == [(name, gateway_id, 7)]
    assert [report.gateway_id for report in reports] == [gateway_id]
    assert reports[0].until - reports[0].since == timedelta(seconds=1)


async def test_what_is_asked_while_its_process_is_replaced_is_not_taken_for_nothing(
    gateway: DataPlane, client: aiohttp.ClientSession, container: Container, place: Place, database: Database
) -> None:
    """HAProxy serves on, and nobody counts: a missing sample says nothing of that time."""
    name, gateway_id = ids.new_container_id(), ids.new_gateway_id()
    await gateway.apply(table([Route(name, PROJECT, (container.server(),))], [KEY]))
    before = SampleReporter(gateway_id, database, gateway, ThreeSecondsAgo())
    await before.report()
    assert await ask(client, name) == 200
    successor = place.dataplane(initial_slots=2)
    await successor.start()
    after = SampleReporter(gateway_id, database, successor, system_clock)
    for _ in range(2):
        await after.report()
    since = datetime.now(UTC) - timedelta(minutes=1)
    async with database.transaction() as session:
        samples = await list_samples(session, since, since + timedelta(minutes=2))
        reports = await list_reports(session, since)
    assert samples == [], "nobody saw it"
    assert len(reports) == 2, "and nobody says that there was nothing"
    assert reports[1].until - reports[1].since == timedelta(seconds=1)


async def test_a_gateway_whose_clock_is_wrong_speaks_of_the_databases_seconds(
    gateway: DataPlane, client: aiohttp.ClientSession, container: Container, database: Database
) -> None:
    """Else it counted as silent for ever: nothing would sleep, and nothing would scale by what it sees."""
    name, gateway_id = ids.new_container_id(), ids.new_gateway_id()
    await gateway.apply(table([Route(name, PROJECT, (container.server(),))], [KEY]))
    clock = HourAgo()
    reporter = SampleReporter(gateway_id, database, gateway, clock)
    for _ in range(2):
        await reporter.report()
    clock.late = timedelta()  # somebody sets it right
    for _ in range(2):
        await ask(client, name)
        await reporter.report()
    now = datetime.now(UTC)
    async with database.transaction() as session:
        newest = max(await list_reports(session, now - timedelta(hours=2)), key=lambda one: one.since)
        samples = await list_samples(session, now - timedelta(minutes=1), now + timedelta(minutes=1))
    assert abs(newest.until - now) < timedelta(seconds=10)
    assert sum(sample.requests for sample in samples) >= 1


async def test_what_postgres_did_not_take_is_stored_later(
    gateway: DataPlane, client: aiohttp.ClientSession, container: Container, database: Database
) -> None:
    name, gateway_id = ids.new_container_id(), ids.new_gateway_id()
    await gateway.apply(table([Route(name, PROJECT, (container.server(),))], [KEY]))
    away = Database("postgresql://nobody@127.0.0.1:1/none")
    reporter = SampleReporter(gateway_id, away, gateway, system_clock)
    for _ in range(3):
        await ask(client, name)
        with pytest.raises(OSError):
            await reporter.report()
    reporter.database = database
    await reporter.report()
    since = datetime.now(UTC) - timedelta(minutes=1)
    async with database.transaction() as session:
        samples = await list_samples(session, since, since + timedelta(minutes=2))
    # The first look only says where the counters stand.
    assert sum(sample.requests for sample in samples) == 2
    await away.close()

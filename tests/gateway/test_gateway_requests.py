"""What is kept of requests: HAProxy logs them, the reader counts and stores them."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import structlog
from gateway_support import Container, Key, Place, eventually, make_place, new_key, table
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.request_reader import RequestReader
from moorage.gateway.table import Route, TrafficLimits
from moorage.identity.api_keys.models import ApiKeyRow
from moorage.identity.api_keys.repository import add_key, uses_of
from moorage.kit import ids
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.organizations.models import OrganizationRow, ProjectRow
from moorage.telemetry.partition_repository import drop_partition, list_partitions
from moorage.telemetry.requests.figures import Figures
from moorage.telemetry.requests.record import Ending, RequestRecord
from moorage.telemetry.requests.repository import TABLES, find_record, list_merged_figures
from moorage.telemetry.steps import steps_for
from tests.ports import free_port

PROJECT = ids.new_project_id()
CONTAINER = ids.new_container_id()
FOREIGN = ids.new_container_id()


def with_id(key: Key) -> Key:
    return Key(
        key.secret,
        dataclasses.replace(
            key.entry, key_id=ids.new_api_key_id(), organization_id=ids.new_organization_id()
        ),
    )


KEY = with_id(new_key(PROJECT))


@pytest.fixture
def place(short_folder: Path) -> Iterator[Place]:
    run_dir = short_folder / "run"
    run_dir.mkdir()
    run_dir.chmod(0o755)
    place = make_place(short_folder, request_log_socket=run_dir / "requests.sock")
    yield place
    place.kill()


@pytest.fixture
async def gateway(place: Place, container: Container) -> DataPlane:
    gateway = place.dataplane()
    await gateway.start()
    routes = [Route(CONTAINER, PROJECT, (container.server(),)), Route(FOREIGN, ids.new_project_id())]
    await gateway.apply(table(routes, [KEY]))
    return gateway


def new_reader(place: Place, database: Database) -> RequestReader:
    assert place.config.request_log_socket is not None
    return RequestReader(
        ids.new_gateway_id(),
        database,
        place.config.request_log_socket,
        system_clock,
        records_per_s=1000,
        owner=place.config.user,
    )


@contextlib.asynccontextmanager
async def running(reader: RequestReader) -> AsyncIterator[None]:
    task = asyncio.create_task(reader.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def ask(client: aiohttp.ClientSession, path: str, key: Key | None = KEY) -> tuple[int, str]:
    async with client.get(path, headers=key.headers if key else {}) as response:
        await response.read()
        return response.status, response.headers["X-Request-ID"]


async def recorded(database: Database, request_id: str) -> RequestRecord:
    found: list[RequestRecord] = []

    async def is_stored() -> bool:
        async with database.transaction() as session:
            stored = await find_record(session, request_id)
        found.extend([stored[0]] if stored is not None else [])
        return stored is not None

    await eventually(is_stored)
    return found[-1]


async def counted(database: Database) -> Figures:
    total = Figures()
    now = datetime.now(UTC)
    steps = steps_for(now - timedelta(hours=1), now + timedelta(hours=1), 1000)
    async with database.transaction() as session:
        for step in (await list_merged_figures(session, CONTAINER, steps)).values():
            total.include(step.statuses, step.histogram, step.first_bytes)
    return total


async def counted_by_key(database: Database) -> dict[str, int]:
    query = text(
        "SELECT key_id, sum(count)::int FROM request_histograms, unnest(key_ids, key_counts) AS known(key_id, count) GROUP BY 1"
    )
    async with database.transaction() as session:
        return dict((await session.execute(query)).tuples().all())


@pytest.mark.long
async def test_records_and_figures(
    gateway: DataPlane, place: Place, database: Database, client: aiohttp.ClientSession, container: Container
) -> None:
    reader = new_reader(place, database)
    async with running(reader):
        status, well = await ask(client, f"/c/{CONTAINER}/v1")
        assert status == 200
        _, closed = await ask(client, f"/c/{CONTAINER}/close")
        patient = Route(CONTAINER, PROJECT, (container.server(),), limits=TrafficLimits(request_timeout_s=2))
        await gateway.apply(table([patient, Route(FOREIGN, ids.new_project_id())], [KEY]))
        _, silent = await ask(client, f"/c/{CONTAINER}/hold")
        _, foreign = await ask(client, f"/c/{FOREIGN}/v1")
        assert (await ask(client, f"/c/{CONTAINER}/v1", key=None))[0] == 401

        record = await recorded(database, well)
        assert (record.project_id, record.container_id, record.key_id) == (
            PROJECT,
            CONTAINER,
            KEY.entry.key_id,
        )
        assert record.replica_id is not None
        assert (record.status, record.ended) == (200, Ending.COMPLETED)
        assert abs(record.started_at - datetime.now(UTC)) < timedelta(seconds=60)
        assert record.first_byte_ms is not None
        assert record.response_bytes > 100
        assert (await recorded(database, closed)).ended is Ending.CONTAINER_CLOSED
        waited = await recorded(database, silent)
        assert (waited.status, waited.ended) == (504, Ending.CONTAINER_TIMEOUT)
        assert waited.total_ms >= 2000
        refused = await recorded(database, foreign)
        assert (refused.project_id, refused.container_id, refused.ended) == (PROJECT, None, Ending.REFUSED)
    figures = await counted(database)
    assert (figures.statuses, figures.requests) == ([0, 0, 1, 0, 0, 2], 3)
    assert await counted_by_key(database) == {KEY.entry.key_id: 3}


async def test_a_record_says_what_was_asked_for_where_everybody_knows_it(
    gateway: DataPlane, place: Place, database: Database, client: aiohttp.ClientSession, container: Container
) -> None:
    """A path that we have no list entry for may be anybody's secret, and so may a method."""
    serves_v1 = Route(CONTAINER, PROJECT, (container.server(),), serves_v1=True)
    await gateway.apply(table([serves_v1], [KEY]))
    chat = "/api/v1/chat/completions"
    asked: dict[str, tuple[str | None, str | None]] = {}
    async with running(new_reader(place, database)):
        for method, path, known in (
            ("POST", f"{chat}?key=secret", ("POST", chat)),
            ("GET", "/v1/models", ("GET", "/v1/models")),
            ("GET", "/", ("GET", "/")),
            ("GET", "/users/secret", ("GET", None)),
            ("GET", f"{chat}/", ("GET", None)),
            ("SECRET", "/v1/embeddings", (None, "/v1/embeddings")),
        ):
            url = f"/c/{CONTAINER}{path}"
            async with client.request(method, url, headers=KEY.headers) as response:
                asked[response.headers["X-Request-ID"]] = known
        for request_id, known in asked.items():
            record = await recorded(database, request_id)
            assert (record.method, record.path, record.retries) == (*known, 0)


async def test_a_request_that_was_sent_again_says_so(
    gateway: DataPlane, place: Place, database: Database, client: aiohttp.ClientSession, container: Container
) -> None:
    alive = container.server()
    dead = dataclasses.replace(alive, replica_id=ids.new_replica_id(), port=free_port())
    await gateway.apply(table([Route(CONTAINER, PROJECT, (dead, alive))], [KEY]))
    async with running(new_reader(place, database)):
        answers = [await ask(client, f"/c/{CONTAINER}/v1") for _ in range(2)]
        assert [status for status, _ in answers] == [200, 200]
        records = [await recorded(database, request_id) for _, request_id in answers]
    assert sorted(record.retries or 0 for record in records)[1] >= 1
    assert {record.replica_id for record in records} == {alive.replica_id}


async def test_a_key_says_when_it_was_used_and_from_where(
    gateway: DataPlane, place: Place, database: Database, client: aiohttp.ClientSession
) -> None:
    key_id = KEY.entry.key_id
    async with database.transaction() as session:
        session.add(OrganizationRow(id=(organization_id := ids.new_organization_id()), name="Owner"))
        await session.flush()
        session.add(ProjectRow(id=PROJECT, organization_id=organization_id, name="Project"))
        await session.flush()
        key = ApiKeyRow(id=key_id, project_id=PROJECT, name="k", scope="inference", key_hash=b"k", hint="k")
        await add_key(session, key)
    before = datetime.now(UTC).replace(second=0, microsecond=0)
    reader = new_reader(place, database)
    async with running(reader):
        _, refused = await ask(client, f"/c/{FOREIGN}/v1")
        await recorded(database, refused)
    async with database.transaction() as session:
        use = (await uses_of(session, [key_id]))[key_id]
    assert before <= use.at <= datetime.now(UTC)
    assert (use.at.second, use.client_address) == (0, "127.0.0.1")


async def test_a_reader_that_dies_leaves_the_lines_to_the_next(
    gateway: DataPlane, place: Place, database: Database, client: aiohttp.ClientSession
) -> None:
    for _ in range(50):
        assert (await ask(client, f"/c/{CONTAINER}/v1"))[0] == 200
    _, last = await ask(client, f"/c/{CONTAINER}/v1")
    async with running(new_reader(place, database)):
        await recorded(database, last)
    assert (await counted(database)).requests == 51


async def test_nothing_is_stored_twice_when_an_answer_is_lost(
    gateway: DataPlane, place: Place, database: Database, client: aiohttp.ClientSession
) -> None:
    """The connection breaks just after the commit, so the reader cannot know that the batch was stored."""
    reader = new_reader(place, AnswersGetLost(database.dsn, pool_size=2))
    async with running(reader):
        _, request_id = await ask(client, f"/c/{CONTAINER}/v1")
        await recorded(database, request_id)
    assert (await counted(database)).requests == 1


@pytest.mark.long
async def test_a_day_without_a_partition_stops_nothing(
    gateway: DataPlane, place: Place, database: Database, client: aiohttp.ClientSession
) -> None:
    """As after days without a controller, which makes them."""
    async with database.transaction() as session:
        for table_name in TABLES:
            days, _ = await list_partitions(session, table_name)
            for day in days:
                await drop_partition(session, table_name, day)
    async with running(new_reader(place, database)):
        for _ in range(2):
            _, request_id = await ask(client, f"/c/{CONTAINER}/v1")
            await recorded(database, request_id)
    assert (await counted(database)).requests == 2


@pytest.mark.long
async def test_a_batch_that_is_refused_for_good_stops_nothing(
    gateway: DataPlane, place: Place, database: Database, client: aiohttp.ClientSession
) -> None:
    async with database.transaction() as session:
        refuse = f"ADD CONSTRAINT refuse CHECK (container_id <> '{CONTAINER}') NOT VALID"
        await session.execute(text(f"ALTER TABLE request_records {refuse}"))
    reader = new_reader(place, database)
    with structlog.testing.capture_logs() as logged:
        async with running(reader):
            await ask(client, f"/c/{CONTAINER}/v1")
            await eventually(lambda: any(line["event"] == "requests_refused" for line in logged))
            _, request_id = await ask(client, f"/c/{FOREIGN}/v1")
            await recorded(database, request_id)
    assert sum(line.get("dropped", 0) for line in logged) >= 1


class AnswersGetLost(Database):
    """Every first commit is answered by an error."""

    failed = False

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        async with super().transaction() as session:
            yield session
        self.failed = not self.failed
        if self.failed:
            raise ConnectionResetError("the answer to the commit was lost")


@pytest.mark.long
async def test_a_busy_minute_is_counted_to_the_last_request(
    gateway: DataPlane, place: Place, database: Database
) -> None:
    """Far more than a datagram socket would hold while nobody reads."""
    requests, clients = 4000, 20
    url = f"http://127.0.0.1:{place.port}/c/{CONTAINER}/v1"
    statuses: list[int] = []

    async def one_client() -> None:
        async with aiohttp.ClientSession() as session:
            for _ in range(requests // clients):
                async with session.get(url, headers=KEY.headers) as response:
                    statuses.append(response.status)

    await asyncio.gather(*(one_client() for _ in range(clients)))
    _, last = await ask_once(place)
    async with running(new_reader(place, database)):
        await recorded(database, last)
    figures = await counted(database)
    assert statuses == [200] * requests
    assert figures.requests == requests + 1
    print(f"{requests} requests sent, {figures.requests - 1} counted")


async def ask_once(place: Place) -> tuple[int, str]:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{place.port}") as client:
        return await ask(client, f"/c/{CONTAINER}/close")

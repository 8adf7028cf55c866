"""Replicas that fail their health checks rest, at most half of them at a time, and return."""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest
from gateway_support import Container, Place, eventually, make_place, new_key, run_container, table
from hypothesis import given
from hypothesis import strategies as st

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.liveness import FAILURES, Health, resting
from moorage.gateway.stats import CheckedServer
from moorage.gateway.table import Route, Server
from moorage.kit import ids
from moorage.kit.ids import ReplicaId

PROJECT = ids.new_project_id()
CONTAINER = ids.new_container_id()
KEY = new_key(PROJECT)


async def serve(gateway: DataPlane, *servers: Server, health_path: str = "/healthz") -> None:
    await gateway.apply(table([Route(CONTAINER, PROJECT, servers, health_path)], [KEY]))


async def ask(client: aiohttp.ClientSession, times: int = 1) -> Counter[int]:
    statuses: Counter[int] = Counter()
    for _ in range(times):
        async with client.get(f"/c/{CONTAINER}/v1", headers=KEY.headers) as response:
            await response.read()
            statuses[response.status] += 1
    return statuses


async def who_is_asked(client: aiohttp.ClientSession, containers: list[Container]) -> list[int]:
    """Which of them get requests."""
    for container in containers:
        container.seen.clear()
    assert await ask(client, 4 * len(containers)) == {200: 4 * len(containers)}
    return [number for number, container in enumerate(containers) if container.seen]


async def until_failing(gateway: DataPlane, count: int) -> dict[ReplicaId, Health]:
    async def seen() -> bool:
        return len(await gateway.health()) == count

    await eventually(seen)
    return dict(await gateway.health())


@pytest.mark.long
async def test_of_four_that_fail_two_rest_and_return_when_they_answer(
    gateway: DataPlane, client: aiohttp.ClientSession
) -> None:
    async with AsyncExitStack() as stack:
        containers = [await stack.enter_async_context(run_container()) for _ in range(4)]
        servers = [container.server() for container in containers]
        await serve(gateway, *servers, health_path="/healthz?deep=1&x=%20")
        assert await who_is_asked(client, containers) == [0, 1, 2, 3]
        assert await gateway.health() == {}

        containers[2].health_status = 503
        failing = await until_failing(gateway, 1)
        assert failing[servers[2].replica_id].failure == "status"
        assert failing[servers[2].replica_id].status == 503
        assert await who_is_asked(client, containers) == [0, 1, 3]
        assert containers[2].health_checks[0] == "/healthz?deep=1&x=%20"

        for container in containers:
            container.health_status = 500
        await until_failing(gateway, 4)
        asked = await who_is_asked(client, containers)
        assert len(asked) == 2, "never more than half"
        assert 2 not in asked, "who rests goes on resting"

        containers[2].health_status = 200
        await until_failing(gateway, 3)
        asked = await who_is_asked(client, containers)
        assert 2 in asked
        assert len(asked) == 2
        for container in containers:
            container.health_status = 200
        await until_failing(gateway, 0)
        assert await who_is_asked(client, containers) == [0, 1, 2, 3]


@pytest.mark.long
async def test_a_failed_check_is_repeated_sooner(container: Container, short_folder: Path) -> None:
    """Or three in a row, of a machine that is gone with all its replicas, take longer than they may be missing."""
    place = make_place(short_folder, health_interval_s=5)
    try:
        gateway = place.dataplane()
        await gateway.start()
        container.health_status = 500
        await serve(gateway, container.server())
        await eventually(lambda: len(container.health_checks) >= 1)
        first_s = time.monotonic()
        await eventually(lambda: len(container.health_checks) >= FAILURES)
        assert time.monotonic() - first_s < 8, "two usual intervals are ten seconds"
    finally:
        place.kill()


@pytest.mark.long
async def test_the_only_replica_never_rests(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    container.health_status = 500
    server = container.server()
    await serve(gateway, server)
    before = (await until_failing(gateway, 1))[server.replica_id].answered
    assert await ask(client, 5) == {200: 5}

    async def counted() -> bool:
        return (await gateway.health())[server.replica_id].answered == before + 5

    await eventually(counted)


@pytest.mark.long
async def test_a_resting_replica_is_let_in_before_the_other_one_leaves(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    async with run_container() as healthy:
        container.health_status = 500
        failing, leaving = container.server(), healthy.server()
        await serve(gateway, failing, leaving)
        await until_failing(gateway, 1)
        assert await who_is_asked(client, [container, healthy]) == [1]

        statuses: Counter[int] = Counter()

        async def ask_on() -> None:
            while True:
                statuses.update(await ask(client))

        asking = asyncio.create_task(ask_on())
        await serve(gateway, failing, Server(leaving.replica_id, leaving.host, leaving.port, draining=True))
        await eventually(lambda: len(container.seen) >= 20)
        asking.cancel()
        assert set(statuses) == {200}


@pytest.mark.long
async def test_a_new_agent_and_a_reload_know_who_rests(
    place: Place, gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    async with run_container() as healthy:
        container.health_status = 500
        servers = (container.server(), healthy.server())
        await serve(gateway, *servers)
        await until_failing(gateway, 1)
        assert await who_is_asked(client, [container, healthy]) == [1]
        successor = place.dataplane()
        await successor.start()
        await serve(successor, *servers)
        assert list(await until_failing(successor, 1)) == [servers[0].replica_id]
        assert await who_is_asked(client, [container, healthy]) == [1]

        await successor.process.reload()
        await serve(successor, *servers)

        async def rests_again() -> bool:
            await successor.health()
            return await who_is_asked(client, [container, healthy]) == [1]

        await eventually(rests_again)
        container.health_status = 200
        await until_failing(successor, 0)
        assert await who_is_asked(client, [container, healthy]) == [0, 1]


@pytest.mark.long
async def test_after_a_reload_too_not_all_go_at_the_first_failed_check(
    gateway: DataPlane, client: aiohttp.ClientSession, container: Container
) -> None:
    server = container.server()
    await serve(gateway, server)
    container.health_status = 500
    await until_failing(gateway, 1)
    await gateway.process.reload()
    await serve(gateway, server)

    async def failed_again() -> bool:
        (seen,) = await gateway.process.worker.checked_servers()
        return seen.failures >= FAILURES

    await eventually(failed_again)
    assert await ask(client, 5) == {200: 5}


@pytest.mark.parametrize(
    ("failing", "count", "rest"), [(1, 1, 0), (1, 2, 1), (2, 2, 1), (3, 3, 1), (1, 3, 1), (30, 30, 15)]
)
def test_how_many_rest(failing: int, count: int, rest: int) -> None:
    servers = [
        CheckedServer((1, ReplicaId(f"rep_{number}")), FAILURES if number < failing else 0, rests=False)
        for number in range(count)
    ]
    assert len(resting(servers)) == rest


@given(
    st.lists(
        st.builds(
            CheckedServer,
            st.tuples(st.integers(1, 3), st.integers(0, 9).map(lambda number: ReplicaId(f"rep_{number}"))),
            st.integers(0, 5),
            rests=st.booleans(),
        ),
        unique_by=lambda server: server.key,
    )
)
def test_always(servers: list[CheckedServer]) -> None:
    rest = resting(servers)
    failing = {server.key for server in servers if server.failures >= FAILURES}
    assert rest <= failing, "who answers takes requests"
    for slot in {server.key[0] for server in servers}:
        mine = [server for server in servers if server.key[0] == slot]
        resting_here = [key for key in rest if key[0] == slot]
        assert len(resting_here) <= len(mine) // 2
        assert len(resting_here) == min(len(mine) // 2, len([one for one in mine if one.key in failing]))
    again = [CheckedServer(server.key, server.failures, rests=server.key in rest) for server in servers]
    assert resting(again) == rest, "nobody takes turns"

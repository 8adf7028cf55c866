"""A canary gets exactly its share of the requests, at a real HAProxy; and one that dies takes no request with it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from gateway_support import Container, Place, eventually, make_place, new_key, run_container, table

from moorage.gateway.canary_rules import is_picked
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route, Server
from moorage.kit import ids

PROJECT = ids.new_project_id()
NAME = ids.new_container_id()
KEY = new_key(PROJECT)


@pytest.fixture
def place(short_folder: Path) -> Iterator[Place]:
    (short_folder / "run").mkdir()
    (short_folder / "run").chmod(0o755)
    place = make_place(short_folder, queue_limit=1000, queue_timeout_s=10)
    yield place
    place.kill()


@pytest.fixture
async def gateway(place: Place) -> DataPlane:
    gateway = place.dataplane(initial_slots=2)
    await gateway.start()
    return gateway


@asynccontextmanager
async def two_versions(old: int, new: int) -> AsyncIterator[tuple[list[Container], list[Container]]]:
    async with AsyncExitStack() as stack:
        containers = [await stack.enter_async_context(run_container()) for _ in range(old + new)]
        yield containers[:old], containers[old:]


def servers_of(old: Sequence[Container], new: Sequence[Container]) -> tuple[Server, ...]:
    on_trial = [replace(one.server(), on_trial=True) for one in new]
    return (*(one.server() for one in old), *on_trial)


async def serve(
    gateway: DataPlane,
    servers: Sequence[Server],
    percent: int,
    *,
    health_path: str | None = None,
    max_concurrency: int = 100,
) -> int:
    route = Route(NAME, PROJECT, tuple(servers), health_path, max_concurrency, canary_percent=percent)
    return (await gateway.apply(table([route], [KEY]))).changes


async def ask(
    client: aiohttp.ClientSession, times: int, *, at_once: int = 1, path: str = "v1"
) -> Counter[int]:
    statuses: Counter[int] = Counter()
    numbers = iter(range(times))

    async def some() -> None:
        for _ in numbers:
            async with client.get(f"/c/{NAME}/{path}", headers=KEY.headers) as response:
                await response.read()
                statuses[response.status] += 1

    await asyncio.gather(*(some() for _ in range(at_once)))
    return statuses


def counted(containers: Sequence[Container]) -> int:
    return sum(len(one.seen) for one in containers)


def test_of_each_hundred_exactly_the_share_is_picked() -> None:
    for percent in range(1, 51):
        for begin in range(0, 300, 50):
            assert (
                sum(is_picked(number, percent) for number in range(begin * 100, (begin + 1) * 100)) == percent
            )
        picked = [number for number in range(10_000) if is_picked(number, percent)]
        even = sum(number % 2 == 0 for number in picked) / len(picked)
        assert 0.4 < even < 0.6, f"{percent} %: who asks two questions in turns has both answered by both"


async def test_a_canary_gets_its_share_and_dies_alone(
    gateway: DataPlane, client: aiohttp.ClientSession
) -> None:
    async with two_versions(2, 2) as (old, new):
        servers = servers_of(old, new)
        await serve(gateway, servers, 10)
        assert await ask(client, 300, at_once=8) == {200: 300}
        picked = sum(is_picked(number, 10) for number in range(1, 301))
        assert (counted(old), counted(new)) == (300 - picked, picked)
        assert {len(one.seen) for one in new} <= {14, 15, 16}, "its replicas take turns"

        await serve(gateway, servers, 50)
        before = counted(new)
        assert await ask(client, 200) == {200: 200}
        assert 98 <= counted(new) - before <= 102

        # One of its replicas is gone, and nobody has told the gateway.
        gone = replace(servers[2], port=1)
        await serve(gateway, (*servers[:2], gone, servers[3]), 50)
        before = counted(new)
        assert await ask(client, 100) == {200: 100}, "what it refuses, the others answer"
        assert 20 <= counted(new) - before <= 30

        # Promoted: all take part, as ever.
        await serve(gateway, [replace(one, on_trial=False) for one in servers], 0)
        for one in (*old, *new):
            one.seen.clear()
        assert await ask(client, 40) == {200: 40}
        assert [len(one.seen) for one in (*old, *new)] == [10] * 4, "leastconn lets idle ones take turns"


async def test_a_restart_of_agent_and_gateway_keeps_the_share(
    place: Place, gateway: DataPlane, client: aiohttp.ClientSession
) -> None:
    async with two_versions(1, 1) as (old, new):
        servers = servers_of(old, new)
        await serve(gateway, servers, 20, health_path="/healthz")
        adopting = place.dataplane(initial_slots=2)
        await adopting.start()
        assert await serve(adopting, servers, 20, health_path="/healthz") == 0, (
            "what the running HAProxy holds is read back as it is"
        )
        assert await ask(client, 100) == {200: 100}
        assert 19 <= counted(new) <= 21
        place.kill()
        cold = place.dataplane(initial_slots=2)

        async def starts() -> bool:
            await cold.start()
            return True

        await eventually(starts)
        before = counted(new)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{place.port}") as fresh:
            assert await ask(fresh, 100) == {200: 100}
            assert 19 <= counted(new) - before <= 21, "its files say so too"
            await serve(cold, [replace(one, on_trial=False) for one in servers], 0, health_path="/healthz")
            before = counted(new)
            assert await ask(fresh, 20) == {200: 20}
            assert counted(new) - before == 10, "promoted, it weighs as much as any other"
        await cold.stop()


async def test_where_nothing_else_serves_it_gets_everything(
    gateway: DataPlane, client: aiohttp.ClientSession
) -> None:
    async with two_versions(1, 1) as (old, new):
        servers = servers_of(old, new)
        await serve(gateway, servers, 5)
        await serve(gateway, (replace(servers[0], draining=True), servers[1]), 5)
        assert await ask(client, 20) == {200: 20}
        assert (counted(old), counted(new)) == (0, 20)


@pytest.mark.long
@pytest.mark.parametrize(("percent", "replicas"), [(1, (3, 1)), (10, (3, 2)), (33, (2, 2)), (50, (2, 2))])
async def test_shares_of_ten_thousand_requests(
    gateway: DataPlane, client: aiohttp.ClientSession, percent: int, replicas: tuple[int, int]
) -> None:
    """With queues: each replica works on two requests at a time, and sixteen ask."""
    async with two_versions(*replicas) as (old, new):
        await serve(gateway, servers_of(old, new), percent, max_concurrency=2)
        assert await ask(client, 10_000, at_once=16) == {200: 10_000}
        share = 100 * counted(new) / 10_000
        print(f"{percent} % asked for: {share:.2f} % of 10,000, {replicas[0]} + {replicas[1]} replicas")
        assert abs(share - percent) <= 0.1


@pytest.mark.long
async def test_shares_over_several_gateways(short_folder: Path) -> None:
    places = []
    try:
        async with two_versions(2, 1) as (old, new), AsyncExitStack() as stack:
            servers = servers_of(old, new)
            clients = []
            for number in range(3):
                home = short_folder / str(number)
                (home / "run").mkdir(parents=True)
                (home / "run").chmod(0o755)
                home.chmod(0o755)
                places.append(make_place(home, queue_limit=1000, queue_timeout_s=10))
                gateway = places[-1].dataplane(initial_slots=2)
                await gateway.start()
                await serve(gateway, servers, 10)
                url = f"http://127.0.0.1:{places[-1].port}"
                clients.append(await stack.enter_async_context(aiohttp.ClientSession(url)))
            for client, times in zip(clients, (5000, 3000, 2000), strict=True):
                assert await ask(client, times, at_once=8) == {200: times}
            share = 100 * counted(new) / 10_000
            print(f"10 % asked for: {share:.2f} % of 10,000 over three gateways")
            assert abs(share - 10) <= 0.1
    finally:
        for place in places:
            place.kill()

"""Replicas and containers come and go under load; agents and workers are replaced; nothing is lost."""

import asyncio
import os
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace

import aiohttp
import pytest
from gateway_support import Container, Place, eventually, new_key, run_container, table

from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import Route, Server
from moorage.kit import ids
from moorage.kit.ids import ContainerId

PROJECT = ids.new_project_id()
CONTAINER = ids.new_container_id()
KEY = new_key(PROJECT)


def route(*servers: Server, container_id: ContainerId = CONTAINER) -> Route:
    return Route(container_id, PROJECT, servers)


def draining(server: Server) -> Server:
    return Server(server.replica_id, server.host, server.port, draining=True)


async def fetch(client: aiohttp.ClientSession, path: str, container_id: ContainerId = CONTAINER) -> int:
    async with client.get(f"/c/{container_id}{path}", headers=KEY.headers) as response:
        await response.read()
        return response.status


async def test_a_draining_replica_finishes_what_it_has_and_gets_nothing_new(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    async with run_container() as other, asyncio.TaskGroup() as group:
        leaving, staying = container.server(), other.server()
        applied = await gateway.apply(table([route(leaving)], [KEY]))
        assert applied.enabled == {leaving.replica_id}
        held = group.create_task(fetch(client, "/hold"))
        await eventually(lambda: container.waiting == 1)

        wanted = table([route(draining(leaving), staying)], [KEY])
        applied = await gateway.apply(wanted)
        assert applied.enabled == {staying.replica_id}
        assert applied.draining == {leaving.replica_id: 1}
        assert applied.removed == frozenset()
        assert (await gateway.in_flight())[leaving.replica_id] == 1
        for _ in range(10):
            assert await fetch(client, "/v1") == 200
        assert (len(container.seen), len(other.seen)) == (1, 10)
        assert (await gateway.apply(wanted)).changes == 0

        container.release.set()
        assert await held == 200

        async def is_removed() -> bool:
            return leaving.replica_id in (await gateway.apply(wanted)).removed

        await eventually(is_removed)
        applied = await gateway.apply(wanted)
        assert (applied.changes, applied.removed) == (0, {leaving.replica_id})
        assert leaving.replica_id not in await gateway.in_flight()


async def test_when_the_last_replica_drains_the_container_is_not_running(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    server = container.server()
    await gateway.apply(table([route(server)], [KEY]))
    async with asyncio.TaskGroup() as group:
        held = group.create_task(fetch(client, "/hold"))
        await eventually(lambda: container.waiting == 1)
        await gateway.apply(table([route(draining(server))], [KEY]))
        assert await fetch(client, "/v1") == 503
        # It comes back before it was empty.
        await gateway.apply(table([route(server)], [KEY]))
        assert await fetch(client, "/v1") == 200
        container.release.set()
        assert await held == 200


async def test_a_replica_that_left_the_table_is_cut_off(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    server = container.server()
    await gateway.apply(table([route(server)], [KEY]))
    async with asyncio.TaskGroup() as group:
        held = group.create_task(fetch(client, "/hold"))
        await eventually(lambda: container.waiting == 1)
        applied = await gateway.apply(table([route()], [KEY]))
        assert applied.removed == {server.replica_id}
        assert await held in (502, 503)
    assert await fetch(client, "/v1") == 503


async def test_applying_the_same_table_again_changes_nothing(
    gateway: DataPlane, place: Place, container: Container
) -> None:
    wanted = table(
        [Route(CONTAINER, PROJECT, (container.server(), container.server()), "/healthz", 7)], [KEY]
    )
    first = await gateway.apply(wanted)
    assert first.changes > 0
    version = os.readlink(place.config.state_dir)
    for _ in range(3):
        again = await gateway.apply(replace(wanted, routes=dict(wanted.routes)))
        assert (again.changes, again.enabled, again.draining) == (0, first.enabled, {})
    assert os.readlink(place.config.state_dir) == version
    # Nor does it for an agent that has only just adopted this HAProxy.
    successor = place.dataplane()
    await successor.start()
    assert (await successor.apply(wanted)).changes == 0


async def test_a_table_that_comes_back_is_applied_again(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    served, stopped = table([route(container.server())], [KEY]), table([route()], [KEY])
    for wanted, status in [(served, 200), (stopped, 503), (served, 200)]:
        assert (await gateway.apply(wanted)).changes > 0
        assert (await gateway.apply(wanted)).changes == 0
        assert await fetch(client, "/v1") == status


async def test_a_limit_changes_in_place(gateway: DataPlane, container: Container) -> None:
    server = container.server()
    await gateway.apply(table([Route(CONTAINER, PROJECT, (server,), None, 5)], [KEY]))
    applied = await gateway.apply(table([Route(CONTAINER, PROJECT, (server,), None, 9)], [KEY]))
    assert applied.changes == 1
    (placed,) = (await gateway.process.worker.servers()).values()
    assert placed.max_concurrency == 9


async def test_an_agent_that_starts_again_knows_what_drains(
    gateway: DataPlane, place: Place, container: Container, client: aiohttp.ClientSession
) -> None:
    server = container.server()
    await gateway.apply(table([route(server)], [KEY]))
    async with asyncio.TaskGroup() as group:
        held = group.create_task(fetch(client, "/hold"))
        await eventually(lambda: container.waiting == 1)
        wanted = table([route(draining(server))], [KEY])
        await gateway.apply(wanted)
        pid = gateway.process.pid()

        successor = place.dataplane()
        await successor.start()
        assert successor.process.pid() == pid
        assert (await successor.apply(wanted)).draining == {server.replica_id: 1}
        container.release.set()
        assert await held == 200


@pytest.mark.long
async def test_the_pool_grows_without_a_lost_request_and_counts_the_old_workers_too(
    place: Place, gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    server = container.server()
    routes = [route(server)]
    await gateway.apply(table(routes, [KEY]))
    slots_before = len((await gateway.process.worker.load()).slots)
    async with asyncio.TaskGroup() as group:
        held = group.create_task(fetch(client, "/stream"))
        await eventually(lambda: container.waiting == 1)
        new_ids = [ids.new_container_id() for _ in range(slots_before + 1)]
        routes += [route(container.server(), container_id=name) for name in new_ids]
        applied = await gateway.apply(table(routes, [KEY]))
        assert len((await gateway.process.worker.load()).slots) == 2 * slots_before
        assert len(applied.enabled) == len(routes)
        for name in (new_ids[0], new_ids[-1]):
            assert await fetch(client, "/v1", name) == 200

        # The stream lives in the old worker; the new one knows nothing of it, and yet it counts.
        known_to_new = (await gateway.process.worker.load()).servers
        assert [count for (_, name), count in known_to_new.items() if name == server.replica_id] == [0]
        assert (await gateway.in_flight())[server.replica_id] == 1
        wanted = table([route(draining(server)), *routes[1:]], [KEY])
        applied = await gateway.apply(wanted)
        assert (applied.draining, applied.removed) == ({server.replica_id: 1}, frozenset())
        container.release.set()
        assert await held == 200

        async def is_removed() -> bool:
            return server.replica_id in (await gateway.apply(wanted)).removed

        await eventually(is_removed)


async def test_a_key_is_revoked_in_old_workers_too(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    """A connection whose answer began before a reload takes one more request to the old worker."""
    other_key = new_key(PROJECT)
    routes = [route(container.server())]
    await gateway.apply(table(routes, [KEY, other_key]))
    async with asyncio.TaskGroup() as group:
        held = group.create_task(fetch(client, "/stream"))
        await eventually(lambda: container.waiting == 1)
        await gateway.process.reload()
        late_key = new_key(PROJECT)
        await gateway.apply(table(routes, [KEY, other_key, late_key]))
        container.release.set()
        assert await held == 200
        (old_pid,) = (await gateway.process.master.workers()).old_pids
        # One that the old worker has, one that it never had.
        await gateway.apply(table(routes, [other_key]))
        old = await gateway.process.master.old_worker(old_pid).load()
        assert old.silent_clients == 1
        assert await fetch(client, "/v1") == 401


async def test_a_replica_that_left_the_table_is_cut_off_in_old_workers_too(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    async with run_container() as other, asyncio.TaskGroup() as group:
        server = container.server()
        await gateway.apply(table([route(server)], [KEY]))
        held = group.create_task(fetch(client, "/hold"))
        await eventually(lambda: container.waiting == 1)
        await gateway.process.reload()
        wanted = table([route(other.server())], [KEY])

        async def is_removed() -> bool:
            return server.replica_id in (await gateway.apply(wanted)).removed

        # The old worker ends when its last request does, in the middle of questions to it: nobody waits for its answers.
        await eventually(is_removed, within_s=5)
        assert await held in (500, 502, 503)
        assert (await gateway.apply(wanted)).changes == 0


async def test_a_slot_with_waiting_requests_gets_no_new_owner(
    gateway: DataPlane, container: Container, client: aiohttp.ClientSession
) -> None:
    server = container.server()
    only_one = Route(CONTAINER, PROJECT, (server,), None, 1)
    await gateway.apply(table([only_one], [KEY]))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(fetch(client, "/hold")) for _ in range(2)]

        async def one_waits() -> bool:
            return sum((await gateway.process.worker.load()).slots.values()) == 2

        await eventually(one_waits)
        (slot,) = {slot for slot, _ in await gateway.process.worker.servers()}
        new = route(container.server(), container_id=ids.new_container_id())
        await gateway.apply(table([new], [KEY]))
        (new_slot,) = {slot for slot, _ in await gateway.process.worker.servers()}
        assert new_slot != slot
        container.release.set()
        # One was cut with its server; the one that waited was answered by the gateway, not by the newcomer.
        assert sorted([await task for task in tasks])[-1] >= 502
    assert len([request for request in container.seen if request.path == "/hold"]) == 1


@pytest.mark.long
async def test_changes_and_reloads_under_load_lose_nothing(gateway: DataPlane, place: Place) -> None:
    """Keep-alive and new connections, while replicas are exchanged, keys change and workers are replaced."""
    outcomes: Counter[str] = Counter()
    done = asyncio.Event()

    async def load(*, keep_alive: bool) -> None:
        connector = aiohttp.TCPConnector(force_close=not keep_alive)
        base = f"http://127.0.0.1:{place.port}"
        async with aiohttp.ClientSession(base, connector=connector) as session:
            while not done.is_set():
                try:
                    outcomes[str(await fetch(session, "/v1"))] += 1
                except aiohttp.ClientError as exc:
                    outcomes[repr(exc)] += 1

    async with AsyncExitStack() as stack:
        containers = [await stack.enter_async_context(run_container()) for _ in range(3)]
        current = containers[0].server()
        await gateway.apply(table([route(current)], [KEY]))
        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(load(keep_alive=number % 2 == 0))
            for number in range(60):
                successor = containers[number % 3].server()
                keys = [KEY, *(new_key(PROJECT) for _ in range(3))]
                wanted = table([route(draining(current), successor)], keys)
                await gateway.apply(wanted)
                if number % 3 == 0:
                    await gateway.process.reload()

                async def is_removed(wanted=wanted, leaving=current) -> bool:  # type: ignore[no-untyped-def]
                    return leaving.replica_id in (await gateway.apply(wanted)).removed

                # With an old worker that is still busy it takes as long as that has requests.
                await eventually(is_removed, within_s=60)
                current = successor
            done.set()
    assert set(outcomes) == {"200"}, outcomes
    assert outcomes["200"] >= 500
    print(f"60 exchanges of replicas and keys, 20 reloads: {outcomes['200']} requests, 0 failures")

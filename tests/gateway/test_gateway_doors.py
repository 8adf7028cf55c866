"""Replicas with doors: who cannot prove that it is the replica meant gets not a byte of a request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp
import pytest
from gateway_support import Container, Place, eventually, new_key, run_container

from moorage.engines.doors import Authority
from moorage.gateway.dataplane import DataPlane
from moorage.gateway.table import GatewayTable, Route, Server, TrafficLimits
from moorage.kit import ids
from moorage.kit.ids import ReplicaId
from tests.door_process import authority, door_of

SIGNS = authority()


@asynccontextmanager
async def behind_a_door(
    address: str, *, replica_id: ReplicaId | None = None, signed_by: Authority = SIGNS
) -> AsyncIterator[tuple[Container, Server]]:
    """A container behind the door of a replica; the server is what a gateway would be told of that replica."""
    replica_id = replica_id or ids.new_replica_id()
    async with (
        run_container(address=address) as container,
        door_of(replica_id, signed_by, address, container.port) as port,
    ):
        yield container, Server(replica_id, address, port, has_door=True)


def serving(
    *servers: Server, health_path: str | None = None, retry_unanswered: bool = False
) -> tuple[GatewayTable, str, dict[str, str]]:
    project_id, container_id = ids.new_project_id(), ids.new_container_id()
    key = new_key(project_id)
    limits = TrafficLimits(retry_unanswered=retry_unanswered)
    route = Route(container_id, project_id, servers, health_path, limits=limits)
    keys = {key.entry.key_hash_hex: key.entry}
    return GatewayTable({container_id: route}, keys, SIGNS.certificate), f"/c/{container_id}", key.headers


async def test_request_through_a_door(gateway: DataPlane, client: aiohttp.ClientSession) -> None:
    async with behind_a_door("127.82.0.1") as (container, server):
        wanted, path, headers = serving(server, health_path="/health")
        applied = await gateway.apply(wanted)
        assert applied.enabled == {server.replica_id}
        async with client.post(f"{path}/v1/x", data=b"body", headers=headers) as answer:
            assert answer.status == 200
        assert container.bodies == [b"body"]
        # Its health checks pass the door too.
        await eventually(lambda: len(container.health_checks) > 1)
        # What HAProxy holds is read back as it was told.
        assert (await gateway.apply(wanted)).changes == 0
        gateway._live = None
        assert (await gateway.apply(wanted)).changes == 0


async def test_streams_and_websockets_pass_a_door(gateway: DataPlane, client: aiohttp.ClientSession) -> None:
    async with behind_a_door("127.82.0.1") as (container, server):
        wanted, path, headers = serving(server)
        await gateway.apply(wanted)
        async with client.get(f"{path}/stream", headers=headers) as answer:
            assert await answer.content.readuntil(b"\n\n") == b"data: first\n\n"
            container.release.set()
            assert await answer.content.readuntil(b"\n\n") == b"data: second\n\n"
        async with client.ws_connect(f"{path}/socket", headers=headers) as socket:
            await socket.send_str("hello")
            assert (await socket.receive(timeout=10)).data == "echo hello"


async def test_client_that_leaves_is_told_through_a_door(
    gateway: DataPlane, client: aiohttp.ClientSession
) -> None:
    async with behind_a_door("127.82.0.1") as (container, server):
        wanted, path, headers = serving(server)
        await gateway.apply(wanted)
        asking = asyncio.create_task(client.get(f"{path}/hold", headers=headers))
        await eventually(lambda: container.waiting == 1)
        asking.cancel()
        await eventually(container.left.is_set)


@pytest.mark.long
async def test_nobody_else_is_believed(gateway: DataPlane, client: aiohttp.ClientSession) -> None:
    """At the address there is the door of another replica, or what has no door, or another installation's door of that name."""
    async with (
        behind_a_door("127.82.0.1") as (neighbour, door),
        run_container() as without,
        behind_a_door("127.82.0.2", signed_by=authority()) as (impostor, forged),
    ):
        cases = [
            serving(replace(door, replica_id=ids.new_replica_id())),
            serving(Server(ids.new_replica_id(), "127.0.0.1", without.port, has_door=True)),
            serving(forged),
        ]
        routes = {name: route for wanted, _, _ in cases for name, route in wanted.routes.items()}
        keys = {name: key for wanted, _, _ in cases for name, key in wanted.keys.items()}
        await gateway.apply(GatewayTable(routes, keys, SIGNS.certificate))

        async def ask(path: str, headers: dict[str, str]) -> None:
            async with client.post(f"{path}/v1/x", data=b"secret", headers=headers) as answer:
                assert answer.status == 502
                assert (await answer.json())["error"]["code"] == "container_unreachable"

        # Together, because a container with one replica is tried for three seconds.
        await asyncio.gather(*(ask(path, headers) for _, path, headers in cases))
        assert neighbour.seen == without.seen == impostor.seen == []


async def test_request_goes_to_another_replica(gateway: DataPlane, client: aiohttp.ClientSession) -> None:
    """Nothing of it has left, so it is repeated whatever it is: the owner need not allow it."""
    async with (
        behind_a_door("127.82.0.1") as (foreign, server),
        behind_a_door("127.82.0.2") as (own, right),
    ):
        wanted, path, headers = serving(replace(server, replica_id=ids.new_replica_id()), right)
        await gateway.apply(wanted)
        for _ in range(20):
            async with client.post(f"{path}/v1/x", data=b"body", headers=headers) as answer:
                assert answer.status == 200
        assert foreign.seen == []
        assert len(own.seen) == 20


async def test_nothing_listens_behind_the_door(gateway: DataPlane, client: aiohttp.ClientSession) -> None:
    """The door takes no handshake then, so a request that may not be repeated is sent to another replica all the same."""
    async with behind_a_door("127.82.0.2") as (own, right):
        replica_id = ids.new_replica_id()
        async with door_of(replica_id, SIGNS, "127.82.0.1", 1) as port:
            empty = Server(replica_id, "127.82.0.1", port, has_door=True)
            wanted, path, headers = serving(empty, right, retry_unanswered=False)
            await gateway.apply(wanted)
            for _ in range(20):
                async with client.post(f"{path}/v1/x", data=b"body", headers=headers) as answer:
                    assert answer.status == 200
        assert len(own.seen) == 20


async def test_restarted_agent_adopts(place: Place, client: aiohttp.ClientSession) -> None:
    """With no reload and no change: who is trusted is read back from HAProxy."""
    before, after = place.dataplane(), place.dataplane()
    async with behind_a_door("127.82.0.1") as (_, server):
        wanted, path, headers = serving(server)
        await before.start()
        await before.apply(wanted)
        pid = await before.process.worker.pid()
        await after.start()
        assert (await after.apply(wanted)).changes == 0
        assert await after.process.worker.pid() == pid
        async with client.get(f"{path}/v1/x", headers=headers) as answer:
            assert answer.status == 200


async def test_cold_start_from_files(place: Place, client: aiohttp.ClientSession) -> None:
    """HAProxy dies while Postgres is away: it comes back with its doors, and with whom to believe."""
    async with (
        behind_a_door("127.82.0.1") as (_, server),
        behind_a_door("127.82.0.2") as (foreign, other),
    ):
        wanted, path, headers = serving(server, replace(other, replica_id=ids.new_replica_id()))
        gateway = place.dataplane()
        await gateway.start()
        await gateway.apply(wanted)
        place.kill()
        await eventually(lambda: not gateway.alive())
        await place.dataplane().start()
        for _ in range(10):
            async with client.get(f"{path}/v1/x", headers=headers) as answer:
                assert answer.status == 200
        assert foreign.seen == []


async def test_authorities_change(gateway: DataPlane, client: aiohttp.ClientSession) -> None:
    """A second one joins the first: doors of both are believed, and none before."""
    second = authority()
    async with (
        behind_a_door("127.82.0.1") as (_, first),
        behind_a_door("127.82.0.2", signed_by=second) as (late, other),
    ):
        wanted, path, headers = serving(first, other)
        await gateway.apply(wanted)
        for _ in range(4):
            async with client.get(f"{path}/v1/x", headers=headers) as answer:
                assert answer.status == 200
        assert late.seen == []
        await gateway.apply(GatewayTable(wanted.routes, wanted.keys, SIGNS.certificate + second.certificate))
        for _ in range(4):
            async with client.get(f"{path}/v1/x", headers=headers) as answer:
                assert answer.status == 200
        assert late.seen

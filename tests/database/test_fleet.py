"""Machines that joined, as the controller sees them: rows become engines, and what is said of a machine holds for what runs there."""

import contextlib
import secrets
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from machines_support import change, serving
from reconciler_support import KEYRING, Machine, WatchedEngine, World, life, new_world

from moorage.catalog.repository import list_nodes
from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.engines import Engines
from moorage.entrypoints.fleet import Fleet
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener
from moorage.machines.models import MachineRow
from moorage.machines.repository import credential_context, find_machine
from moorage.machines.states import MachineState
from moorage.node.main import credential_digest
from moorage.node.server import NodeServer
from moorage.outbound.pulls.proxy import PullProxy
from moorage.tunnel.programs import TunnelError
from tests.ports import free_port

JOINED = "mch_aaaaaaaaaaaaaaaaaaaa"


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


@pytest.fixture
async def fleet(world: World) -> AsyncIterator[Fleet]:
    engines = Engines({LOCAL_ENGINE: WatchedEngine(world.machine)})
    pulls = PullProxy(system_clock, allowed_registries=(), max_image_bytes=2**30, pulls_per_organization=1)
    yield Fleet(world.database, Listener(""), engines, KEYRING, pulls, system_clock, _no_other_way)
    await engines.close()


async def _no_other_way() -> None:
    """On loopback there is none."""


@contextlib.asynccontextmanager
async def joined(world: World) -> AsyncIterator[Machine]:
    """A machine whose node role answers, and its row."""
    second, credential, port = Machine("rack-7", "127.0.0.1"), secrets.token_urlsafe(32), free_port()
    server = NodeServer(WatchedEngine(second), credential_digest(credential), system_clock, None)
    runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    async with world.database.transaction() as session:
        session.add(
            MachineRow(
                id=JOINED,
                name="rack-7",
                infrastructure="operator",
                state=MachineState.ACTIVE,
                address="127.0.0.1",
                port=port,
                public_key="k",
                sealed_credential=KEYRING.encrypt(credential.encode(), credential_context(JOINED)),
                secret_hash=b"h",
                created_by="usr_operator",
            )
        )
    try:
        yield second
    finally:
        await runner.cleanup()


async def said(world: World, state: MachineState) -> None:
    await change(world, f"UPDATE machines SET state = '{state}' WHERE id = '{JOINED}'")


async def test_while_another_way_is_open_no_machine_is_spoken_to(world: World, fleet: Fleet) -> None:
    """What it is sent would leave by the default route wherever the tunnel is away."""

    async def fails() -> None:
        raise TunnelError("ip is not installed.")

    fleet.close_other_ways = fails
    async with joined(world):
        await fleet.look()
        assert fleet.engines.by_name().keys() == {LOCAL_ENGINE}
        fleet.close_other_ways = _no_other_way
        await fleet.look()
        assert fleet.engines.by_name().keys() == {LOCAL_ENGINE, JOINED}


async def test_a_machine_that_joined_serves_and_leaves(world: World, fleet: Fleet) -> None:
    await fleet.look()
    assert list(fleet.engines.by_name()) == [LOCAL_ENGINE], "nobody joined"
    async with joined(world) as second:
        await fleet.look()
        assert list(fleet.engines.by_name()) == [LOCAL_ENGINE, JOINED]
        engine = fleet.engines.of(JOINED)
        await fleet.look()
        assert fleet.engines.of(JOINED) is engine, "nothing about it has changed"
        async with life(world, fleet.engines) as alive:
            for name in fleet.engines.by_name():
                await alive.reconciler._sweep.refresh_nodes(name, alive.lease)
                alive.reconciler._operations.fit_to(name, cores=8)
            container_id = await world.create(replicas=2)
            routed = await serving(alive, container_id, 2)
            assert {one.engine for one in routed} == {LOCAL_ENGINE, JOINED}
            assert len(second.running()) == 1

            await said(world, MachineState.DRAINING)
            await fleet.look()
            async with world.database.reading() as session:
                assert {node.engine for node in await list_nodes(session) if node.draining} == {JOINED}
                row = await find_machine(session, JOINED)
                assert row is not None
                assert row.replicas == 1
            await alive.reconciler._moving.step(alive.lease)
            for _ in range(20):
                await alive.round(container_id)
                if not second.running():
                    break
            assert {one.engine for one in await world.replicas(container_id, "routed")} == {LOCAL_ENGINE}

            await said(world, MachineState.ACTIVE)
            await fleet.look()
            async with world.database.reading() as session:
                assert not any(node.cordoned or node.draining for node in await list_nodes(session))

    await change(
        world,
        f"UPDATE machines SET state = 'removed', sealed_credential = NULL, secret_hash = NULL WHERE id = '{JOINED}'",
    )
    await fleet.look()
    assert list(fleet.engines.by_name()) == [LOCAL_ENGINE]
    async with world.database.reading() as session:
        assert {node.engine for node in await list_nodes(session)} == {LOCAL_ENGINE}


async def test_a_controller_that_was_away_forgets_who_left_meanwhile(world: World, fleet: Fleet) -> None:
    await change(
        world,
        "INSERT INTO nodes (engine, name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, seen_at) "
        "SELECT 'mch_gone', name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, now() FROM nodes",
    )
    await fleet.look()
    async with world.database.reading() as session:
        assert {node.engine for node in await list_nodes(session)} == {LOCAL_ENGINE}

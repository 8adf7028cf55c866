"""Machines that joined, as the controller sees them: rows become engines, and what is said of a machine holds for what runs there."""

import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web
from machines_support import change, serving
from reconciler_support import KEYRING, Machine, WatchedEngine, World, life, new_world

from moorage.catalog.repository import list_nodes
from moorage.containers.reconciler.doubt_repository import list_doubts
from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.engines import Engines
from moorage.entrypoints.fleet import Fleet
from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener
from moorage.kit.settings import Settings
from moorage.machines.models import MachineRow
from moorage.machines.repository import credential_context, find_machine
from moorage.machines.states import MachineState
from moorage.node.main import credential_digest
from moorage.node.server import NodeServer
from moorage.outbound.pulls.proxy import PullProxy
from moorage.tunnel.programs import TunnelError
from tests.ports import free_port

JOINED = "mch_aaaaaaaaaaaaaaaaaaaa"
JOINED_AGAIN = "mch_bbbbbbbbbbbbbbbbbbbb"


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


@pytest.fixture
async def fleet(world: World) -> AsyncIterator[Fleet]:
    engines = Engines({LOCAL_ENGINE: WatchedEngine(world.machine)})
    pulls = PullProxy(system_clock, allowed_registries=(), max_image_bytes=2**30, pulls_per_organization=1)
    yield Fleet(
        world.database, Listener(""), engines, KEYRING, Settings(), pulls, system_clock, _no_other_way
    )
    await engines.close()


async def _no_other_way() -> None:
    """On loopback there is none."""


@dataclass(frozen=True)
class NodeRole:
    """Of a machine, as it answers."""

    machine: Machine
    port: int
    credential: str


@contextlib.asynccontextmanager
async def answering() -> AsyncIterator[NodeRole]:
    role = NodeRole(Machine("rack-7", "127.0.0.1"), free_port(), secrets.token_urlsafe(32))
    server = NodeServer(WatchedEngine(role.machine), credential_digest(role.credential), system_clock, None)
    runner = web.AppRunner(server.application(), handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", role.port).start()
    try:
        yield role
    finally:
        await runner.cleanup()


async def let_in(
    world: World,
    role: NodeRole,
    machine_id: str = JOINED,
    address: str = "127.0.0.1",
    name: str = "rack-7",
) -> None:
    async with world.database.transaction() as session:
        session.add(
            MachineRow(
                id=machine_id,
                name=name,
                infrastructure="operator",
                state=MachineState.ACTIVE,
                address=address,
                port=role.port,
                public_key=f"key of {name}",
                sealed_credential=KEYRING.encrypt(role.credential.encode(), credential_context(machine_id)),
                secret_hash=b"h",
                created_by="usr_operator",
            )
        )


@contextlib.asynccontextmanager
async def joined(world: World) -> AsyncIterator[Machine]:
    """A machine whose node role answers, and its row."""
    async with answering() as role:
        await let_in(world, role)
        yield role.machine


async def remove(world: World) -> None:
    await change(
        world,
        f"UPDATE machines SET state = 'removed', address = '127.9.9.9', sealed_credential = NULL, secret_hash = NULL "
        f"WHERE id = '{JOINED}'",
    )


async def said(world: World, state: MachineState) -> None:
    await change(world, f"UPDATE machines SET state = '{state}' WHERE id = '{JOINED}'")


async def test_a_credential_that_cannot_be_read_concerns_its_machine_alone(
    world: World, fleet: Fleet
) -> None:
    async with answering() as role:
        await let_in(world, role)
        await let_in(world, role, JOINED_AGAIN, address="127.0.0.2", name="rack-8")
        await change(
            world, f"UPDATE machines SET sealed_credential = 'damaged'::bytea WHERE id = '{JOINED_AGAIN}'"
        )
        await change(
            world,
            "INSERT INTO nodes (engine, name, infrastructure, architecture, cpu_millis, memory_bytes, gpus, seen_at) "
            f"VALUES ('{JOINED_AGAIN}', 'rack-8', 'operator', 'amd64', 1000, 1, '[]', now())",
        )
        await fleet.look()
        assert fleet.engines.by_name().keys() == {LOCAL_ENGINE, JOINED}
        async with world.database.reading() as session:
            assert JOINED_AGAIN in {node.engine for node in await list_nodes(session)}, "it did not leave"


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

    await remove(world)
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


async def test_what_is_said_of_a_lost_machine_holds_from_its_first_answer_on(
    world: World, fleet: Fleet
) -> None:
    """The operator pauses it while it is away; nothing is to start there in the seconds until somebody notes its return."""
    async with joined(world):
        await fleet.look()
        async with life(world, fleet.engines) as alive:
            await alive.reconciler._sweep.refresh_nodes(JOINED, alive.lease)
            for wish, is_open in ((MachineState.PAUSED, False), (MachineState.ACTIVE, True)):
                await change(
                    world,
                    f"UPDATE machines SET state = 'lost', state_before_loss = '{wish}' WHERE id = '{JOINED}'",
                )
                await fleet.look()
                await alive.reconciler._pulse.beat(JOINED, alive.lease)
                async with world.database.reading() as session:
                    [node] = [one for one in await list_nodes(session) if one.engine == JOINED]
                assert node.takes_replicas is is_open


async def test_a_machine_that_is_closed_before_it_is_described_takes_nothing(
    world: World, fleet: Fleet
) -> None:
    """Nobody described it while no controller led: whoever leads next knows at once what was said of it meanwhile."""
    async with joined(world):
        await fleet.look()
        await said(world, MachineState.DRAINING)
        async with life(world, fleet.engines) as alive:
            await alive.reconciler._sweep.refresh_nodes(JOINED, alive.lease)
            async with world.database.reading() as session:
                [node] = [one for one in await list_nodes(session) if one.engine == JOINED]
            assert node.draining
            assert not node.takes_replicas


async def test_what_ran_on_a_removed_machine_is_looked_at_although_gateways_still_reach_it(
    world: World, fleet: Fleet
) -> None:
    async with joined(world):
        await fleet.look()
        async with life(world, fleet.engines) as alive:
            await alive.reconciler._sweep.refresh_nodes(JOINED, alive.lease)
            alive.reconciler._operations.fit_to(JOINED, cores=8)
            container_id = await world.create(replicas=2)
            await serving(alive, container_id, 2)
            await change(
                world,
                "INSERT INTO machine_doubts (engine, node, missing, expected) "
                f"VALUES ('{JOINED}', 'rack-7', 3, 4)",
            )
            await change(world, "UPDATE containers SET reconcile_at = NULL")
            await remove(world)
            await fleet.look()
            assert (await alive.reconciler.due(10)).keys == [container_id]
            routed = await serving(alive, container_id, 2)
            assert {one.engine for one in routed} == {LOCAL_ENGINE}
            async with world.database.reading() as session:
                assert await list_doubts(session) == []


async def test_what_a_removed_machine_still_runs_ends_when_it_joins_again(world: World, fleet: Fleet) -> None:
    """It was lost, removed and replaced, and was not broken after all. Its replicas have rows, of a machine that is gone."""
    async with answering() as role:
        await let_in(world, role)
        await fleet.look()
        async with life(world, fleet.engines) as alive:
            await alive.reconciler._sweep.refresh_nodes(JOINED, alive.lease)
            alive.reconciler._operations.fit_to(JOINED, cores=8)
            container_id = await world.create(replicas=2)
            await serving(alive, container_id, 2)
            await remove(world)
            await fleet.look()
            await serving(alive, container_id, 2)
            for _ in range(5):
                await alive.round(container_id)
            assert len(role.machine.running()) == 1, "nobody could end it there"
            await let_in(world, role, JOINED_AGAIN)
            await fleet.look()
            await alive.reconciler._sweep._compare(JOINED_AGAIN, alive.lease)
            assert role.machine.replicas == {}
            assert len(await world.replicas(container_id, "routed")) == 2

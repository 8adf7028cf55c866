"""Machines as their engines describe them: one that changes its name, that loses an image, that is open to its neighbours."""

from dataclasses import replace

import pytest
from api_support import Api
from api_support import api_fixture as api_fixture
from machines_support import change
from reconciler_support import IMAGES, WatchedEngine, World, driven, eventually, life, new_world
from sqlalchemy import select, text

from moorage.catalog.capacity import place
from moorage.catalog.repository import find_instance_type, list_nodes, replace_nodes
from moorage.catalog.shortage import why_waiting
from moorage.containers.capacity_repository import load_room
from moorage.containers.models import ContainerRow
from moorage.engines.base import GpuDevice, NodeCapacity
from moorage.engines.simulated_machine import SimulatedImage, engine_ref
from moorage.kit.database import Database

GIBIBYTE = 2**30
MACHINE = NodeCapacity(
    "old-name",
    "operator",
    "amd64",
    8000,
    64 * GIBIBYTE,
    (GpuDevice("GPU-1", "NVIDIA L4", 24 * GIBIBYTE),),
    "580.65.06",
    "13.0",
    engine_identity="ABCD:EFGH",
)


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def test_a_machine_that_changes_its_name_gives_nothing_away_twice(world: World) -> None:
    async with world.database.transaction() as session:
        await replace_nodes(session, [MACHINE])
        await session.execute(
            text(
                "INSERT INTO instance_types (name, position, gpu_model, gpu_count, vcpu_millis, memory_bytes, disk_bytes, "
                "price_per_hour_microusd, infrastructure) VALUES ('l4', 99, 'NVIDIA L4', 1, 1000, 1073741824, "
                "1073741824, 1000, 'operator')"
            )
        )
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await world.create()
        for _ in range(4):
            await controller.round(container_id)
    async with world.database.transaction() as session:
        await session.execute(
            text("UPDATE replicas SET instance_type = 'l4', node = 'old-name', gpu_device_ids = '{GPU-1}'")
        )
        await replace_nodes(session, [replace(MACHINE, name="new-name")])
        room = await load_room(session)
        l4 = await find_instance_type(session, "l4")
        assert l4 is not None
        assert place(l4, room.nodes, room.used, 1.0) is None
        # Another engine under another name is another machine.
        await replace_nodes(session, [replace(MACHINE, name="new-name", engine_identity="WXYZ")])
        assert [node.name for node in await list_nodes(session)] == ["new-name"]


@pytest.mark.long
async def test_an_image_that_vanished_is_fetched_again(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await world.create()

        async def serves() -> bool:
            return len(await world.replicas(container_id, "routed")) == 1

        await eventually(serves, "it serves")
        (first,) = await world.replicas(container_id, "routed")
        before = await world.container(container_id)
        world.machine.pruned.add(engine_ref("local/chat:latest"))
        world.machine.end(first.id)
        async with world.database.transaction() as session:
            await session.execute(text("UPDATE containers SET reconcile_at = now()"))

        async def serves_again() -> bool:
            return [row.id for row in await world.replicas(container_id, "routed")] not in ([], [first.id])

        await eventually(serves_again, "another replica serves, from the image that was fetched again")
        after = await world.container(container_id)
        assert (after.generation, after.image_ref) == (before.generation, before.image_ref)


@pytest.mark.long
async def test_what_is_fetched_again_is_what_ran(world: World) -> None:
    """Its tag names something else by now; the replicas of one deployment run one image all the same."""
    tagged = "registry.example/chat:1"
    pinned = f"registry.example/chat@{engine_ref(tagged)}"
    image = SimulatedImage(exposed_ports=(8000,))
    world.machine.images = {**IMAGES, tagged: image, pinned: image}
    container_id = await world.create()
    async with world.database.transaction() as session:
        row = (await session.execute(select(ContainerRow))).scalar_one()
        row.settings = {**row.settings, "image": tagged, "registry_provider": "other"}
    async with life(world, WatchedEngine(world.machine)) as controller:
        for _ in range(6):
            await controller.round(container_id)
        (first,) = await world.replicas(container_id, "routed")
        world.machine.pruned.add(engine_ref(tagged))
        world.machine.end(first.id)

        async def serves_again() -> bool:
            await controller.round(container_id)
            return [row.id for row in await world.replicas(container_id, "routed")] not in ([], [first.id])

        await eventually(serves_again, "another replica serves")
    assert engine_ref(pinned) in world.machine.pulled, "asked for by the digest that ran, not by its tag"


@pytest.mark.long
async def test_what_serves_from_an_image_that_nobody_has_any_more_goes_on(world: World) -> None:
    """Pruned from the machine and gone from the registry: that is the end of the replica that needs it, not of its neighbours."""
    tagged = "registry.example/chat:1"
    pinned = f"registry.example/chat@{engine_ref(tagged)}"
    image = SimulatedImage(exposed_ports=(8000,))
    world.machine.images = {**IMAGES, tagged: image}
    container_id = await world.create(replicas=2)
    async with world.database.transaction() as session:
        row = (await session.execute(select(ContainerRow))).scalar_one()
        row.settings = {**row.settings, "image": tagged, "registry_provider": "other"}
    async with life(world, WatchedEngine(world.machine)) as controller:

        async def serving() -> list[str]:
            return [row.id for row in await world.replicas(container_id, "routed")]

        for _ in range(6):
            await controller.round(container_id)
        first, second = await serving()
        world.machine.pruned.add(engine_ref(tagged))
        world.machine.end(first)

        async def could_not_be_replaced() -> bool:
            await controller.round(container_id)
            ended = await world.replicas(container_id)
            return any(one.reason == "image_not_found" for one in ended if one.id not in (first, second))

        await eventually(could_not_be_replaced, "its successor ended for want of its image")
        for _ in range(3):
            await controller.round(container_id)
        after = await world.container(container_id)
        assert (await serving(), after.state, after.failed_generation) == ([second], "RUNNING", 0)

        world.machine.images = {**IMAGES, tagged: image, pinned: image}
        await change(world, "UPDATE replicas SET ended_at = ended_at - interval '1 hour'")

        async def complete() -> bool:
            await controller.round(container_id)
            return len(await serving()) == 2

        await eventually(complete, "it is whole again once the registry has it")


@pytest.mark.long
async def test_nothing_new_starts_where_containers_are_not_kept_apart(world: World) -> None:
    engine = WatchedEngine(world.machine)
    (machine,) = await engine.capacity()
    closed = replace(machine, closed_because="iptables is not installed")
    async with world.database.transaction() as session:
        await replace_nodes(session, [closed])
        assert await list_nodes(session) == [closed]
        nano = await find_instance_type(session, "cpu-nano")
    assert nano is not None
    assert "cannot keep containers apart" in why_waiting(nano, [closed], {}, 4.0)
    async with life(world, engine) as controller:
        container_id = await world.create()
        for _ in range(3):
            await controller.round(container_id)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("PENDING", "no_capacity")
        assert "cannot keep containers apart" in (row.message or "")
        assert await world.replicas(container_id) == []
        async with world.database.transaction() as session:
            await replace_nodes(session, [machine])
        for _ in range(4):
            await controller.round(container_id)
        assert len(await world.replicas(container_id, "routed")) == 1


@pytest.mark.parametrize(
    ("facts", "state", "words"),
    [
        ({}, "ok", "kept apart"),
        ({"closed_because": "no DOCKER-USER chain"}, "failing", "no DOCKER-USER chain"),
        ({"weaknesses": ("loopback is open",)}, "warning", "loopback is open"),
    ],
)
async def test_isolation_is_shown_in_health(api: Api, facts: dict[str, str], state: str, words: str) -> None:
    async with api.database.transaction() as session:
        await replace_nodes(session, [replace(MACHINE, **facts)])  # type: ignore[arg-type]
    health = (await api.get(api.operator, "/operator/health")).json()
    (part,) = [part for part in health["parts"] if part["name"] == "isolation old-name"]
    assert part["state"] == state
    assert words in part["message"]
    assert (part["what_to_do"] is None) == (state == "ok")

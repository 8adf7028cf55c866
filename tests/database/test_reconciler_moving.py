"""A machine that is to be empty: its replicas move elsewhere, a few at a time, and each serves until another does."""

import asyncio

import pytest
from api_support import Api
from api_support import api_fixture as api_fixture
from machines_support import SECOND, Fleet, change, leading, new_fleet, none_twice, rounds, serving
from reconciler_support import Life, World, eventually
from sqlalchemy import text
from test_reconciler_caches import caches
from test_renewals import charged

from moorage.catalog.repository import Intake, replace_nodes, set_intake
from moorage.engines.base import LOCAL_ENGINE, NodeCapacity
from moorage.engines.simulated import SimulatedImage
from moorage.engines.simulated_machine import engine_ref
from moorage.entrypoints.migrate import migrate
from moorage.kit.database import Database

GIB = 2**30


@pytest.fixture
async def fleet(database: Database) -> Fleet:
    return await new_fleet(database)


async def let(fleet: Fleet, node: str, intake: Intake) -> None:
    engine = next(name for name, machine in fleet.machines.items() if machine.name == node)
    async with fleet.world.database.transaction() as session:
        assert await set_intake(session, engine, node, intake)


async def move(alive: Life, *container_ids: str, steps: int = 12) -> None:
    for _ in range(steps):
        await alive.reconciler._moving.step(alive.lease)
        for container_id in container_ids:
            await alive.round(container_id)


async def on_second(fleet: Fleet, container_id: str, *states: str) -> int:
    return sum(one.engine == SECOND for one in await fleet.world.replicas(container_id, *states))


async def test_it_is_emptied_a_few_at_a_time_and_nobody_serves_with_fewer(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        containers = [await fleet.world.create(replicas=4) for _ in range(2)]
        for container_id in containers:
            await serving(alive, container_id, 4)
            assert await on_second(fleet, container_id, "routed") == 2
        paid = await charged(fleet.world)
        fleet.world.fewest_enabled = dict.fromkeys(containers, 4)
        await let(fleet, "second", Intake.DRAINING)
        await alive.reconciler._moving.step(alive.lease)
        moving = [
            one
            for name in containers
            for one in await fleet.world.replicas(name)
            if one.moving_since is not None
        ]
        assert len(moving) == 2, "two at once, of all containers together"
        await alive.reconciler._moving.step(alive.lease)
        again = [one for name in containers for one in await fleet.world.replicas(name) if one.moving_since]
        assert {one.id for one in again} == {one.id for one in moving}, "and no more before these are gone"
        await move(alive, *containers)
        for container_id in containers:
            assert await on_second(fleet, container_id, "requested", "starting", "ready", "routed") == 0
            assert len(await fleet.world.replicas(container_id, "routed")) == 4
            row = await fleet.world.container(container_id)
            assert (row.state, row.reason, row.generation) == ("RUNNING", None, 1)
        assert fleet.world.fewest_enabled == dict.fromkeys(containers, 4)
        assert await charged(fleet.world) == paid, "each slot has its hour, whichever machine it is on"
        # Open again, it takes new ones.
        await let(fleet, "second", Intake.OPEN)
        other = await fleet.world.create(replicas=2)
        await serving(alive, other, 2)
        assert await on_second(fleet, other, "routed") == 1


async def test_one_with_a_cache_serves_until_the_next_machine_has_its_image_and_its_weights(
    fleet: Fleet,
) -> None:
    """Make before break: nobody goes before image and weights are there and the next one answers. Nobody pays for that, it is
    said how far it is, and of several that move to one machine one downloads."""
    world, tagged = fleet.world, "registry.example/model:1"
    image = SimulatedImage(exposed_ports=(8000,), cached_bytes=15 * GIB, size_bytes=8 * GIB)
    for machine in fleet.machines.values():
        machine.images = {tagged: image, f"registry.example/model@{engine_ref(tagged)}": image}
    world.machine.pruned.add(engine_ref(tagged))
    async with leading(fleet) as alive:
        await let(fleet, "simulated", Intake.CORDONED)
        container_id = await world.create(replicas=2, cache={"size_gib": 20})
        of_a_registry = f'{{"image": "{tagged}", "registry_provider": "other"}}'
        await change(world, f"UPDATE containers SET settings = settings || '{of_a_registry}'")
        before = {one.id for one in await serving(alive, container_id, 2)}
        assert {one.engine for one in await world.replicas(container_id, "routed")} == {SECOND}
        paid = await charged(world)

        async def nothing_changed() -> None:
            assert {one.id for one in await world.replicas(container_id, "routed")} == before
            assert await charged(world) == paid

        world.fewest_enabled = {container_id: 2}
        await let(fleet, "simulated", Intake.OPEN)
        await let(fleet, "second", Intake.DRAINING)
        fetched = asyncio.Event()

        async def hold(call: str) -> None:
            if call == "ensure_image":
                await fetched.wait()

        fleet.local_engine.after = hold
        await alive.reconciler._moving.step(alive.lease)

        async def pulls() -> bool:
            await alive.reconciler.reconcile(container_id, alive.lease)
            progress = (await world.container(container_id)).progress
            return progress == {"phase": "pull", "done_bytes": 8 * GIB, "total_bytes": 8 * GIB}

        await eventually(pulls, "the next machine fetches the image, and that is said")
        await nothing_changed()
        assert world.machine.caches == {}

        world.machine.health_status = 503
        fetched.set()
        await move(alive, container_id, steps=5)
        assert len(world.machine.running()) == 1, "one fills the cache and the other waits for it"
        for size_gib in (1, 3):
            world.machine.caches[container_id, None].size_bytes = size_gib * GIB
            await alive.reconciler._cache_watch.look(LOCAL_ENGINE, None, alive.lease)
            await alive.clock.advance(2)
        await alive.round(container_id)
        await nothing_changed()
        row = await world.container(container_id)
        assert row.progress is not None
        said = {name: row.progress[name] for name in ("phase", "step", "cache_bytes", "waiting")}
        assert said == {"phase": "start", "step": "download", "cache_bytes": 3 * GIB, "waiting": 1}
        assert row.state == "RUNNING"

        world.machine.caches[container_id, None].size_bytes = 15 * GIB
        world.machine.health_status = 200
        await move(alive, container_id, steps=8)
        after = await world.replicas(container_id, "routed")
        assert {(one.engine, one.id in before) for one in after} == {(LOCAL_ENGINE, False)}
        assert len(after) == 2
        assert world.machine.downloads == [container_id], "the second found what the first had fetched"
        assert world.fewest_enabled == {container_id: 2}, "and at no moment fewer served"
        assert await charged(world) == paid
        [cache] = [one for one in await caches(world) if one.engine == LOCAL_ENGINE]
        assert cache.warm_version == 1
        assert (await world.container(container_id)).progress is None
    none_twice(fleet)


async def test_what_nothing_else_has_room_for_serves_on_and_stays_when_it_is_open_again(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        before = {one.id for one in await serving(alive, container_id, 2)}
        await let(fleet, "simulated", Intake.CORDONED)
        await let(fleet, "second", Intake.DRAINING)
        await move(alive, container_id, steps=4)
        assert {one.id for one in await fleet.world.replicas(container_id, "routed")} == before
        assert (await fleet.world.container(container_id)).state == "RUNNING"
        await let(fleet, "second", Intake.OPEN)
        await move(alive, container_id, steps=4)
        replicas = await fleet.world.replicas(container_id)
        assert {one.id for one in replicas} == before
        assert [one.moving_since for one in replicas] == [None, None]


async def test_a_cordoned_machine_keeps_what_it_has_and_takes_nothing_new(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        before = {one.id for one in await serving(alive, container_id, 2)}
        await let(fleet, "second", Intake.CORDONED)
        # Its engine describes it again and again, and does not know what the operator said.
        async with fleet.world.database.transaction() as session:
            await replace_nodes(session, await fleet.second_engine.capacity(), SECOND)
        await move(alive, container_id, steps=3)
        assert {one.id for one in await fleet.world.replicas(container_id)} == before
        other = await fleet.world.create(replicas=3)
        await serving(alive, other, 3)
        assert await on_second(fleet, other) == 0


async def test_one_that_dies_while_it_moves_is_replaced_elsewhere(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=2)
        moving = next(one for one in await serving(alive, container_id, 2) if one.engine == SECOND)
        await let(fleet, "second", Intake.DRAINING)
        await alive.reconciler._moving.step(alive.lease)
        fleet.second.end(moving.id)
        await change(fleet.world, "UPDATE containers SET reconcile_at = now()")
        after = await serving(alive, container_id, 2)
        assert {one.engine for one in after} == {LOCAL_ENGINE}
        await rounds(alive, container_id, 4)
        assert fleet.running(container_id) == {"simulated": 2, "second": 0}
    none_twice(fleet)


async def test_two_machines_drained_together_and_opened_together_leave_one_process_in_a_slot(
    fleet: Fleet,
) -> None:
    """What took over is itself to go before it serves: then both are on the move, and only one of them may stay."""
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=1)
        [first] = await serving(alive, container_id, 1)
        other = "second" if first.node == "simulated" else "simulated"
        await let(fleet, first.node, Intake.DRAINING)
        await alive.reconciler._moving.step(alive.lease)
        await alive.reconciler.reconcile(container_id, alive.lease)
        await let(fleet, other, Intake.DRAINING)
        await alive.reconciler._moving.step(alive.lease)
        await alive.finish_operations()
        moving = [one for one in await fleet.world.replicas(container_id) if one.moving_since is not None]
        assert {one.node for one in moving} == {"simulated", "second"}
        for node in ("simulated", "second"):
            await let(fleet, node, Intake.OPEN)
        await move(alive, container_id, steps=6)
        assert [one.moving_since for one in await fleet.world.replicas(container_id, "routed")] == [None]
        assert sum(fleet.running(container_id).values()) == 1


async def test_where_everything_is_drained_a_slot_keeps_one_process(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=1)
        [first] = await serving(alive, container_id, 1)
        await let(fleet, first.node, Intake.DRAINING)
        await alive.reconciler._moving.step(alive.lease)
        await alive.reconciler.reconcile(container_id, alive.lease)
        for node in ("simulated", "second"):
            await let(fleet, node, Intake.DRAINING)
        await move(alive, container_id, steps=8)
        assert [one.id for one in await fleet.world.replicas(container_id, "routed")] == [first.id]
        assert sum(fleet.running(container_id).values()) == 1, (
            "it serves on until there is another place for it"
        )


@pytest.mark.long
async def test_what_finds_no_place_holds_up_nobody_who_does(fleet: Fleet) -> None:
    """Large ones fit on the drained machine alone; a small one beside them fits anywhere."""
    async with leading(fleet) as alive:
        fleet.world.machine.memory_bytes = fleet.world.machine.cpu_millis = 0
        await fleet.describe()
        large = [await fleet.world.create(replicas=1) for _ in range(2)]
        small = await fleet.world.create(replicas=1)
        for container_id in (*large, small):
            await serving(alive, container_id, 1)
        await change(fleet.world, f"UPDATE containers SET instance_type = 'cpu-large' WHERE id <> '{small}'")
        await change(
            fleet.world, f"UPDATE replicas SET instance_type = 'cpu-large' WHERE container_id <> '{small}'"
        )
        fleet.world.machine.memory_bytes, fleet.world.machine.cpu_millis = 2**30, 1000
        await fleet.describe()
        await let(fleet, "second", Intake.DRAINING)
        await move(alive, *large, small, steps=3)
        assert await on_second(fleet, small, "routed") == 1, "two at once, and two wait"
        await change(fleet.world, "UPDATE replicas SET moving_since = moving_since - interval '61 s'")
        await move(alive, *large, small, steps=6)
        assert await on_second(fleet, small, "routed") == 0
        for container_id in large:
            assert await on_second(fleet, container_id, "routed") == 1


async def test_over_http(api: Api) -> None:
    async with api.database.transaction() as session:
        await replace_nodes(session, [NodeCapacity("rack-1", "operator", "amd64", 8000, 2**36, ())])
    path = "/operator/nodes/rack-1/intake"
    for intake, state in (("cordoned", "cordoned"), ("draining", "draining"), ("open", "ready")):
        for _ in range(2):
            answer = await api.ask(api.operator, "PUT", f"/api/v1{path}", json={"intake": intake})
            assert answer.status_code == 200, answer.text
        [node] = (await api.get(api.operator, "/operator/nodes")).json()["items"]
        assert (node["engine"], node["state"]) == ("local", state)
    assert (await api.ask(api.operator, "PUT", f"/api/v1{path}", json={"intake": "ajar"})).status_code == 422
    nowhere = await api.ask(
        api.operator, "PUT", "/api/v1/operator/nodes/rack-2/intake", json={"intake": "open"}
    )
    assert nowhere.status_code == 404
    audit = (await api.get(api.operator, "/operator/audit")).json()["items"]
    noted = [(one["target"], one["details"]) for one in audit if one["action"] == "node.intake"]
    assert noted == [("rack-1", {"intake": intake}) for intake in ("open", "draining", "cordoned")], (
        "each once"
    )


async def test_the_migration_goes_down_and_up_over_two_machines(fleet: Fleet, database_dsn: str) -> None:
    """The version before knows one machine: what is elsewhere is out of its reach, and of two in a slot one goes."""
    world = fleet.world
    async with leading(fleet) as alive:
        container_id = await world.create(replicas=2)
        here, there = sorted(await serving(alive, container_id, 2), key=lambda one: one.engine)
        await let(fleet, "simulated", Intake.DRAINING)
        await alive.reconciler._moving.step(alive.lease)
        await alive.round(container_id)
        await change(
            world,
            "INSERT INTO machine_doubts (engine, node, missing, expected) VALUES ('mch_second', 'second', 3, 4)",
        )
        # The same port on both machines, and one that has no address yet.
        await change(
            world, f"UPDATE replicas SET host_port = {here.host_port} WHERE engine = '{SECOND}' AND slot = 1"
        )
        await change(world, "UPDATE replicas SET host = NULL WHERE moving_since IS NULL")
    await migrate(database_dsn, "0051")
    states = dict(await rows_of(world, "SELECT id, state FROM replicas"))
    assert (states.pop(here.id), set(states.values())) == ("draining", {"removed"})
    assert await rows_of(world, "SELECT name FROM nodes") == [("simulated",)]
    assert await rows_of(world, "SELECT count(*) FROM machine_doubts") == [(0,)]
    await migrate(database_dsn)
    assert await rows_of(world, "SELECT DISTINCT engine FROM replicas") == [(LOCAL_ENGINE,)]
    fleet.engines.remove(SECOND)
    async with leading(fleet) as alive:
        await change(world, "UPDATE containers SET reconcile_at = now()")
        after = await serving(alive, container_id, 2)
        assert {one.node for one in after} == {"simulated"}
        assert not {one.id for one in after} & {here.id, there.id}


async def rows_of(world: World, statement: str) -> list[tuple[object, ...]]:
    async with world.database.reading() as session:
        return [tuple(row) for row in await session.execute(text(statement))]

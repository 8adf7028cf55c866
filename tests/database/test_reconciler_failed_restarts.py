"""A restart that fails: what served before it is the deployment again, in all that happens to it later."""

import pytest
from machines_support import SECOND, Fleet, change, leading, new_fleet, none_twice, rounds, serving
from reconciler_support import Life, WatchedEngine, life
from test_reconciler_moving import let, move, on_second
from test_reconciler_wishes import pass_meets
from test_renewals import charged

from moorage.catalog.repository import Intake
from moorage.containers import service
from moorage.containers.models import ContainerRow
from moorage.kit.database import Database

OTHER_IMAGE = 'UPDATE containers SET settings = settings || \'{"image": "local/%s:latest"}\''


@pytest.fixture
async def fleet(database: Database) -> Fleet:
    return await new_fleet(database)


async def fail_to_restart(fleet: Fleet, alive: Life, container_id: str) -> ContainerRow:
    """What its image is called is another image by now, which cannot run; and later the old one again."""
    await change(fleet.world, OTHER_IMAGE % "crash")
    await fleet.world.ask(service.restart_container, container_id)
    for _ in range(20):
        await alive.round(container_id)
        row = await fleet.world.container(container_id)
        if row.failed_generation == 2:
            await rounds(alive, container_id, 3)
            await change(fleet.world, OTHER_IMAGE % "chat")
            return await fleet.world.container(container_id)
    raise AssertionError(f"the restart is not given up: {row.state} {row.message}")


@pytest.mark.long
async def test_what_served_is_the_deployment_again_and_whole(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=4)
        old = await serving(alive, container_id, 4)
        image = (await fleet.world.container(container_id)).image_ref
        fleet.world.fewest_enabled[container_id] = 4
        row = await fail_to_restart(fleet, alive, container_id)
        assert (row.state, row.reason, row.generation) == ("RUNNING", "exited", 3)
        assert row.message is not None
        assert row.message.startswith("The restart failed, so the previous replicas keep running. ")
        assert row.message.count("The restart failed") == 1
        routed = await fleet.world.replicas(container_id, "routed")
        assert {one.id for one in routed} == {one.id for one in old}, "nothing was started, nothing ended"
        assert {one.generation for one in routed} == {3}
        assert row.image_ref == image, "what is started from now on is what serves"
        assert fleet.world.fewest_enabled[container_id] == 4
        paid = await charged(fleet.world)
        # One ends by itself, and has a successor.
        ended = next(one for one in routed if one.engine == SECOND)
        fleet.second.end(ended.id)
        fleet.world.fewest_enabled[container_id] = 3
        assert ended.id not in {one.id for one in await serving(alive, container_id, 4)}
        # Its machine is to be empty.
        await let(fleet, "second", Intake.DRAINING)
        await move(alive, container_id)
        assert await on_second(fleet, container_id, "requested", "starting", "ready", "routed") == 0
        assert len(await fleet.world.replicas(container_id, "routed")) == 4
        none_twice(fleet)
        assert await charged(fleet.world) == paid, "each slot has its hour, whatever became of the restart"
        # And the next restart is one like any other.
        await let(fleet, "second", Intake.OPEN)
        await fleet.world.ask(service.restart_container, container_id)
        await rounds(alive, container_id, 20)
        new = await serving(alive, container_id, 4)
        assert {one.generation for one in new} == {4}
        row = await fleet.world.container(container_id)
        assert (row.state, row.reason, row.message) == ("RUNNING", None, None)


async def test_whoever_asks_for_another_restart_meanwhile_is_not_outrun(fleet: Fleet) -> None:
    world, engine = fleet.world, WatchedEngine(fleet.world.machine)
    async with life(world, engine) as alive:
        container_id = await world.create()
        [old] = await serving(alive, container_id, 1)
        await change(world, OTHER_IMAGE % "crash")
        await world.ask(service.restart_container, container_id)
        await rounds(alive, container_id, 2)  # It is started, and seen.
        await pass_meets(alive, engine, container_id, service.restart_container)
        row = await world.container(container_id)
        assert (row.generation, row.failed_generation, row.resumed_generation) == (3, 2, 0)
        await rounds(alive, container_id, 6)
        row = await world.container(container_id)
        assert (row.generation, row.failed_generation, row.resumed_generation) == (4, 3, 4)
        assert [one.id for one in await world.replicas(container_id, "routed")] == [old.id]

"""A replica that wrote more than its instance type's disk is ended, with a reason; its neighbour is not."""

import pytest
from reconciler_support import WatchedEngine, World, driven, eventually, new_world

from moorage.engines.base import DiskSpace
from moorage.kit.database import Database

SPACE = DiskSpace(1000 * 2**30, 500 * 2**30)
LESS_SPACE = DiskSpace(1000 * 2**30, 489 * 2**30)


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def state_of(world: World, container_id: str, state: str) -> None:
    async def reached() -> bool:
        return (await world.container(container_id)).state == state

    await eventually(reached, f"{container_id} is {state}")


@pytest.mark.long
async def test_before_it_was_ready(world: World) -> None:
    world.machine.disk_space = SPACE
    world.machine.health_status = 503
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await world.create("local/greedy:latest")

        async def starting() -> bool:
            return bool(await world.replicas(container_id, "starting"))

        await eventually(starting, "it has a process")
        world.machine.disk_space = LESS_SPACE
        await state_of(world, container_id, "FAILED")

        async def nothing_left() -> bool:
            return await world.nothing_left(container_id)

        await eventually(nothing_left, "its replica is gone")
    row = await world.container(container_id)
    assert row.reason == "disk_full"
    assert "wrote 11 GiB to its disk of 10 GiB" in (row.message or "")


@pytest.mark.long
async def test_while_it_serves(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        greedy, neighbour = await world.create("local/greedy:latest"), await world.create()
        await state_of(world, greedy, "RUNNING")
        await state_of(world, neighbour, "RUNNING")
        first = (await world.replicas(greedy))[0].id
        world.machine.disk_space = SPACE

        async def ended() -> bool:
            # At once: this image ignores the request to end, and in-flight requests are not waited for.
            return not world.machine.runs(first)

        await eventually(ended, "it was ended")

        async def replaced() -> bool:
            rows = await world.replicas(greedy)
            return len(rows) > 1 and next(row for row in rows if row.id == first).state == "removed"

        await eventually(replaced, "another takes its place")
        row = next(row for row in await world.replicas(greedy) if row.id == first)
        assert (row.reason, row.ended_badly) == ("disk_full", True)
        assert [one.state for one in await world.replicas(neighbour)] == ["routed"]

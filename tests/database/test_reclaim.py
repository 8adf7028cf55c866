"""A machine that its owner wants back: what runs there moves at once, and what cannot is ended in time."""

import pytest
from machines_support import SECOND, Fleet, change, leading, new_fleet, rounds, serving
from reconciler_support import Life

from moorage.containers.states import Reason
from moorage.engines.base import LOCAL_ENGINE
from moorage.kit.database import Database


@pytest.fixture
async def fleet(database: Database) -> Fleet:
    return await new_fleet(database)


async def reclaimed(fleet: Fleet, alive: Life, in_s: float) -> None:
    await change(
        fleet.world,
        "UPDATE nodes SET cordoned_at = now(), draining_at = now(),"
        f" empty_by = now() + interval '{in_s} s' WHERE engine = '{SECOND}'",
    )
    await alive.reconciler._moving.step(alive.lease)


async def only_there(fleet: Fleet, alive: Life, replicas: int) -> str:
    await change(fleet.world, f"UPDATE nodes SET cordoned_at = now() WHERE engine = '{LOCAL_ENGINE}'")
    container_id = await fleet.world.create(replicas=replicas)
    assert {row.engine for row in await serving(alive, container_id, replicas)} == {SECOND}
    return container_id


async def test_all_of_it_moves_at_once(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await only_there(fleet, alive, 3)
        await change(fleet.world, "UPDATE nodes SET cordoned_at = NULL")
        await reclaimed(fleet, alive, 30)
        moving = [row for row in await fleet.world.replicas(container_id) if row.moving_since is not None]
        assert len(moving) == 3, "not two at a time, as of a machine that is drained"
        await rounds(alive, container_id, 12)
        assert fleet.running(container_id) == {"simulated": 3, "second": 0}
        ended = await fleet.world.replicas(container_id, "removed", "collected", "stopped")
        assert {row.reason for row in ended} == {None}, "each went once another served"


async def test_what_finds_no_other_place_ends_in_time(fleet: Fleet) -> None:
    async with leading(fleet) as alive:
        container_id = await only_there(fleet, alive, 1)
        await reclaimed(fleet, alive, 20)
        await rounds(alive, container_id, 3)
        assert fleet.running(container_id)["second"] == 1, "it serves while it may"
        await reclaimed(fleet, alive, 9)
        await rounds(alive, container_id, 6)
        assert fleet.running(container_id)["second"] == 0
        (ended,) = await fleet.world.replicas(container_id, "removed", "collected", "stopped")
        assert ended.reason == Reason.MACHINE_RECLAIMED
        row = await fleet.world.container(container_id)
        assert row.reason == "no_capacity"
        await change(fleet.world, "UPDATE nodes SET cordoned_at = NULL")
        assert {row.engine for row in await serving(alive, container_id, 1)} == {LOCAL_ENGINE}

"""A machine's clock may be wrong by hours, and the database's may be set back: no slot stays empty for that."""

from datetime import datetime, timedelta

import pytest
from machines_support import change, serving
from reconciler_support import WatchedEngine, World, life, new_world
from sqlalchemy import select

from moorage.containers.models import ActivityRow, ReplicaRow
from moorage.containers.repository import ages_of_asked_starts_s
from moorage.kit.clock import SystemClock
from moorage.kit.database import Database, database_now


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


class WrongClock(SystemClock):
    def __init__(self, by: timedelta) -> None:
        self.by = by

    def now(self) -> datetime:
        return super().now() + self.by


@pytest.mark.parametrize("hours", [2, -2])
async def test_what_a_machine_with_a_wrong_clock_says_stays_within_what_is_known(
    world: World, hours: int
) -> None:
    world.machine.clock = WrongClock(timedelta(hours=hours))
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(replicas=1)
        [first] = await serving(alive, container_id, 1)
        world.machine.end(first.id)
        await alive.round(container_id)
        async with world.database.reading() as session:
            [ended] = (await session.execute(select(ReplicaRow).where(ReplicaRow.id == first.id))).scalars()
            now = await database_now(session)
        times = [ended.created_at, ended.started_at, ended.ready_at, ended.routed_at, ended.ended_at, now]
        assert None not in times
        assert times == sorted(time for time in times if time is not None)
        [second] = await serving(alive, container_id, 1)
        assert second.id != first.id


async def test_a_database_whose_clock_was_set_back_waits_for_no_end_that_is_yet_to_come(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as alive:
        container_id = await world.create(replicas=1)
        [first] = await serving(alive, container_id, 1)
        world.machine.end(first.id)
        await alive.round(container_id)
        await change(world, "UPDATE replicas SET ended_at = ended_at + interval '2 hours'")
        [second] = await serving(alive, container_id, 1)
        assert second.id != first.id


async def test_starts_that_somebody_will_have_asked_for_count_against_no_pace(world: World) -> None:
    container_id = await world.create(replicas=1)
    asked = {"project_id": (await world.container(container_id)).project_id, "container_id": container_id}
    async with world.database.transaction() as session:
        for id_, minutes in (("act_before", -0.5), ("act_after", 60)):
            at = await database_now(session) + timedelta(minutes=minutes)
            session.add(ActivityRow(id=id_, at=at, actor="usr_ada", kind="container.start", **asked))
        await session.flush()
        [age_s] = await ages_of_asked_starts_s(session, container_id)
    assert age_s == pytest.approx(30, abs=5)

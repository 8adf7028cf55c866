"""The autoscaling reconciler and its replay with a week of minutes in the tables."""

from datetime import UTC, datetime, timedelta

import pytest
from reconciler_support import World, new_world
from sqlalchemy import text
from test_autoscaling import START, Town, new_town

from moorage.autoscaling import repository
from moorage.autoscaling.comparison import compare
from moorage.autoscaling.replay_service import read_question
from moorage.containers.models import ReplicaRow
from moorage.kit.database import Database
from moorage.kit.ids import new_replica_id

HOUR_S = 3600
JOB_AT = START - START % HOUR_S + HOUR_S
"""The next full hour: for a week, a job has begun at each of them."""
STARTUP = timedelta(minutes=5)


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def town_with_a_job_on_the_hour(world: World, *, by_chance: bool = False) -> Town:
    town = await new_town(world, max_replicas=12)
    begins = "floor(random() * 50)" if by_chance else "0"
    async with world.database.transaction() as session:
        begun = datetime.fromtimestamp(START, UTC) - timedelta(days=1)
        session.add(
            ReplicaRow(
                id=new_replica_id(), container_id=town.container_id, slot=0, generation=1, instance_type="cpu-nano",
                state="routed", node="here", host_port=20000, created_at=begun, ready_at=begun + STARTUP,
            )
        )  # fmt: skip
        await session.execute(text("SELECT setseed(0.4)"))
        await session.execute(
            text(
                "WITH hours AS (SELECT h, " + begins + " AS begins FROM generate_series("
                " CAST(:since AS timestamptz), CAST(:until AS timestamptz) - interval '1 hour', interval '1 hour') h)"
                " INSERT INTO container_steps (step_s, at, container_id, in_flight_mean, in_flight_max, queued_mean,"
                "  requests, errors, response_ms)"
                " SELECT 60, h + m * interval '1 minute', :id,"
                "  30, 40, 0, 60, 0, 5 FROM hours, generate_series(0, 59) m WHERE m >= begins AND m < begins + 8"
            ),
            {
                "since": datetime.fromtimestamp(JOB_AT, UTC) - timedelta(days=7),
                "until": datetime.fromtimestamp(JOB_AT, UTC),
                "id": town.container_id,
            },
        )
    return town


async def test_replicas_are_asked_for_before_the_hour_and_the_replay_shows_it(world: World) -> None:
    town = await town_with_a_job_on_the_hour(world)
    town.second = JOB_AT - 350
    await town.play(0, 16)
    assert await town.replicas() == 1
    await town.play(0, 16)
    assert await town.replicas() > 8
    asked = (await town.decisions())[-1]
    assert asked.replicas <= 12
    assert "in flight expected at" in asked.reason
    assert "as in the hours before" in asked.reason or "as on the days before" in asked.reason
    assert asked.inputs["pattern"] in ("hour", "day", "workday")
    assert asked.inputs["foreseen"] == pytest.approx(30, rel=0.1)

    container = await world.container(town.container_id)
    policy = repository.policy_of(container.settings)
    since, now = (
        datetime.fromtimestamp(JOB_AT - 349, UTC),
        datetime.fromtimestamp(town.second + 2, UTC),
    )
    async with world.database.transaction() as session:
        foreseeing = compare(await read_question(session, container, policy, since, now))
        question = await read_question(session, container, policy, since, now, forecast=False)
    assert foreseeing.replayed.pattern == asked.inputs["pattern"]
    assert [change.decision.replicas for change in foreseeing.replayed.changes] == [asked.replicas]
    assert compare(question).replayed.changes == ()


async def test_nothing_is_foreseen_where_nothing_repeats(world: World) -> None:
    town = await town_with_a_job_on_the_hour(world, by_chance=True)
    town.second = JOB_AT - 330
    await town.play(0, 40)
    assert await town.replicas() == 1
    assert (await town.decisions())[-1].inputs["pattern"] is None

"""Updates with `canary`: a version beside the one that serves, until somebody or a rule decides; the one that serves is a
container like any other meanwhile."""

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from reconciler_support import (
    KEYRING,
    SETTINGS,
    Doom,
    DoomedDatabase,
    WatchedEngine,
    World,
    driven,
    eventually,
    life,
    new_world,
)
from sqlalchemy import text
from test_reconciler_drafts import activities, draft, environment, rounds, running, scale, settled, went_back
from test_reconciler_rolling import (
    hours_bought,
    looked_again,
    memory_of,
    outcomes,
    paid_rightly,
    routed_ids,
    running_for_now,
    say,
    versions,
    with_room_for,
)

from moorage.containers import service
from moorage.containers.canaries.schemas import CanaryRequest
from moorage.containers.canaries.service import abort_canary, change_canary, promote_canary
from moorage.containers.drafts.service import apply_draft
from moorage.containers.models import ContainerRow
from moorage.containers.repository import lock_container
from moorage.containers.rollout import Rollout
from moorage.containers.states import Strategy
from moorage.containers.versions.models import VersionResponseTimesRow
from moorage.containers.versions.service import roll_back
from moorage.gateway.liveness import Health
from moorage.gateway.repository import read_table
from moorage.kit.database import Database
from moorage.kit.errors import ConflictError
from moorage.kit.histogram import bucket_of
from moorage.ledger.check_repository import find_differences, find_slots_paid_wrongly

canary = partial(apply_draft, keyring=KEYRING, settings=SETTINGS, strategy=Strategy.CANARY, share=10)


@pytest.fixture
async def world(database: Database) -> AsyncIterator[World]:
    made = await new_world(database)
    yield made
    async with database.transaction() as session:
        assert await find_differences(session) == []


async def begin(world: World, *, replicas: int = 2, **options: Any) -> str:
    """A container that runs, with a canary whose replicas serve."""
    container_id = await running(world, replicas=replicas)
    world.fewest_enabled[container_id] = replicas
    await draft(world, container_id, env={"WORD": "new"})
    await world.ask(partial(canary, **options), container_id)
    await eventually(lambda: serves(world, container_id, 1), "the canary serves")
    return container_id


async def serves(world: World, container_id: str, replicas: int, version: int = 2) -> bool:
    rollout = Rollout.from_json((await world.container(container_id)).rollout)
    on_trial = rollout is not None and rollout.serving_since is not None
    return on_trial and len(await routed_ids(world, container_id, version)) == replicas


async def of_old(world: World, container_id: str, replicas: int) -> bool:
    return len(await routed_ids(world, container_id, 1)) == replicas


async def took(world: World, container_id: str, version: int, answers: int, ms: int) -> None:
    async with world.database.transaction() as session:
        await session.merge(
            VersionResponseTimesRow(
                container_id=container_id,
                version=version,
                gateway_id="gtw_test",
                bucket=bucket_of(ms),
                answers=answers,
            )
        )


async def gone(world: World, container_id: str, version: int) -> bool:
    return not [
        one for one in await world.replicas(container_id) if one.version == version and one.state != "removed"
    ]


@pytest.mark.long
async def test_beside_what_serves_until_it_is_promoted(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await begin(world)
        old, row = await routed_ids(world, container_id, 1), await world.container(container_id)
        assert len(old) == 2
        assert (row.generation, row.version, environment(row)) == (1, 1, {"WORD": "old"})
        async with world.database.transaction() as session:
            route = (await read_table(session)).routes[container_id]
        on_trial = {one.replica_id for one in route.servers if one.on_trial}
        assert (route.canary_percent, on_trial) == (10, await routed_ids(world, container_id, 2))
        with pytest.raises(ConflictError, match="Promote it or abort it"):
            await world.ask(service.restart_container, container_id)
        (first,) = on_trial
        await world.ask(promote_canary, container_id)
        await eventually(lambda: settled(world, container_id), "it has taken over")
        await eventually(lambda: gone(world, container_id, 1), "nothing of the old one is left")
        await eventually(lambda: paid_rightly(world, container_id), "each slot has its hour")
        assert first in await routed_ids(world, container_id, 2), "what was on trial goes on"
        row = await world.container(container_id)
    assert world.fewest_enabled[container_id] == 2
    assert (row.generation, row.version, environment(row)) == (2, 2, {"WORD": "new"})
    assert (row.draft, row.fallback, row.rollout, row.trial_settings) == (None, None, None, None)
    assert await outcomes(world, container_id) == {1: "replaced", 2: "serving"}
    assert (await versions(world, container_id))[2].strategy == "canary"
    assert await hours_bought(world) == {"cpu-nano": 3}, (
        "two for what served, one for what was on trial beside it"
    )
    said = [(one.kind, one.message) for one in await activities(world, container_id)]
    assert ("container.canary_promoted", "It was promoted. Version 2 takes over.") in said


@pytest.mark.long
async def test_aborted_by_hand_nothing_is_touched(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await begin(world)
        old = await routed_ids(world, container_id, 1)
        await world.ask(abort_canary, container_id)
        await eventually(lambda: went_back(world, container_id), "it is dropped")
        await eventually(lambda: gone(world, container_id, 2), "nothing of it is left")
        await eventually(lambda: paid_rightly(world, container_id), "each slot has its hour")
        assert await routed_ids(world, container_id) == old, "the very same processes serve"
        row = await world.container(container_id)
        assert (row.version, environment(row), row.reason) == (1, {"WORD": "old"}, "rolled_back")
        assert row.draft is not None, "the draft is kept"
        second = (await versions(world, container_id))[2]
        assert (second.outcome, second.reason, second.served_since) == (
            "rolled_back",
            "It was aborted.",
            None,
        )
        with pytest.raises(ConflictError, match="No canary"):
            await world.ask(promote_canary, container_id)
        # And again: the number of the generation that was on trial is nobody's.
        await world.ask(canary, container_id)
        await eventually(lambda: serves(world, container_id, 1, version=3), "another one serves")
        assert await routed_ids(world, container_id, 1) == old
        await world.ask(partial(roll_back, number=1, keyring=KEYRING), container_id)
        await eventually(lambda: gone(world, container_id, 3), "back to what serves is an abort")
    assert world.fewest_enabled[container_id] == 2


@pytest.mark.long
async def test_errors_or_slow_answers_drop_it_by_rule(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await begin(world)
        old = await routed_ids(world, container_id, 1)
        await say(world, container_id, 1, 10_000, 20)
        await say(world, container_id, 2, 1000, 11)
        await eventually(lambda: looked_again(world, container_id), "a pass has looked at that")
        assert (await world.container(container_id)).rollout is not None, "within the bound"
        await say(world, container_id, 2, 1000, 50)
        await eventually(lambda: went_back(world, container_id), "5 % errors are too many")
        second = (await versions(world, container_id))[2]
        assert second.reason == (
            "5.0 % of its 1,000 answers were errors; the bound is 1 %, and 0.2 % of the version before it."
        )
        await world.ask(canary, container_id)
        await eventually(lambda: serves(world, container_id, 1, version=3), "another one serves")
        await took(world, container_id, 1, 1000, 100)
        await took(world, container_id, 3, 200, 140)
        await say(world, container_id, 1, 1000, 0)
        await say(world, container_id, 3, 200, 0)
        await eventually(lambda: looked_again(world, container_id), "a pass has looked at that")
        assert (await world.container(container_id)).rollout is not None, "40 % slower is within the bound"
        await took(world, container_id, 3, 100, 400)
        await eventually(lambda: went_back(world, container_id), "much slower is too slow")
        assert await routed_ids(world, container_id) == old
        row = await world.container(container_id)
    assert row.reason == "slower_than_before"
    assert "95 of 100 of its 300 answers" in ((await versions(world, container_id))[3].reason or "")


@pytest.mark.long
async def test_promoted_by_rule_once_it_has_served_well(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await begin(world, promote_after_s=0.6)
        await say(world, container_id, 2, SETTINGS.canary_least_answers - 1, 0)
        await eventually(lambda: looked_again(world, container_id), "a pass has looked at that")
        assert (await world.container(container_id)).version == 1, "too few answers to say so"
        await say(world, container_id, 2, SETTINGS.canary_least_answers, 0)
        await eventually(lambda: settled(world, container_id), "it has taken over")
        assert (await world.container(container_id)).version == 2
    assert await outcomes(world, container_id) == {1: "replaced", 2: "serving"}
    said = [
        one.message
        for one in await activities(world, container_id)
        if one.kind == "container.canary_promoted"
    ]
    assert said == [
        "It served well for 0.01 minutes: 0.0 % of its 100 answers were errors. Version 2 takes over."
    ]


@pytest.mark.long
@pytest.mark.parametrize(("image", "reason"), [("local/crash:latest", "exited")])
async def test_one_that_does_not_start_is_dropped(world: World, image: str, reason: str) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world, replicas=2)
        old = await routed_ids(world, container_id)
        await draft(world, container_id, image=image)
        await world.ask(canary, container_id)
        await eventually(lambda: went_back(world, container_id), "it is dropped")
        await eventually(lambda: paid_rightly(world, container_id), "each slot has its hour")
        assert await routed_ids(world, container_id) == old
        row = await world.container(container_id)
    assert (row.reason, row.version) == (reason, 1)
    assert await outcomes(world, container_id) == {1: "serving", 2: "rolled_back"}


@pytest.mark.long
async def test_promoted_where_nothing_more_fits_it_takes_over_slot_by_slot(world: World) -> None:
    container_id = await running_for_now(world)
    await with_room_for(world, 3)
    world.machine.memory_bytes = await memory_of(world)
    world.fewest_enabled[container_id] = 2
    async with driven(world, WatchedEngine(world.machine)):
        await draft(world, container_id, env={"WORD": "new"})
        await world.ask(canary, container_id)
        await eventually(lambda: serves(world, container_id, 1), "the canary serves")
        await an_hour_passes(world)
        await world.ask(promote_canary, container_id)
        await eventually(lambda: settled(world, container_id), "it has taken over")
        await eventually(lambda: serves_alone(world, container_id, 2), "with all that it should have")
    assert world.fewest_enabled[container_id] == 2
    assert await outcomes(world, container_id) == {1: "replaced", 2: "serving"}


async def an_hour_passes(world: World) -> None:
    """For what serves: longer than its health timeout."""
    async with world.database.transaction() as session:
        moments = ("created_at", "ready_at", "routed_at")
        earlier = ", ".join(f"{one} = {one} - interval '1 hour'" for one in moments)
        await session.execute(text(f"UPDATE replicas SET {earlier}"))
        begun_at = "to_jsonb((rollout ->> 'begun_at')::timestamptz - interval '1 hour')"
        await session.execute(
            text(f"UPDATE containers SET rollout = jsonb_set(rollout, '{{begun_at}}', {begun_at})")
        )


async def serves_alone(world: World, container_id: str, replicas: int) -> bool:
    routed = await routed_ids(world, container_id)
    return len(routed) == replicas and routed == await routed_ids(world, container_id, 2)


@pytest.mark.long
async def test_what_does_not_fit_is_dropped(world: World) -> None:
    container_id = await running_for_now(world)
    old = await routed_ids(world, container_id)
    await with_room_for(world, 2)
    world.machine.memory_bytes = await memory_of(world)
    async with driven(world, WatchedEngine(world.machine)):
        await draft(world, container_id, env={"WORD": "new"})
        await world.ask(canary, container_id)
        await eventually(lambda: went_back(world, container_id), "it is dropped")
        assert await routed_ids(world, container_id) == old
    assert (await world.container(container_id)).reason == "no_capacity"


@pytest.mark.long
async def test_what_serves_scales_and_is_replaced_beside_it(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await begin(world, replicas=1, share=50)
        (old,) = await routed_ids(world, container_id, 1)
        await scale(world, container_id, min_replicas=4, max_replicas=4)
        await eventually(lambda: of_old(world, container_id, 4), "the version that serves has more replicas")
        await eventually(lambda: serves(world, container_id, 2), "and so has the canary, by its share")
        await eventually(lambda: no_slot_paid_wrongly(world), "each slot has its hour")
        assert await hours_bought(world) == {"cpu-nano": 6}, "four, and two of the canary"
        world.machine.end(old, exit_code=7)
        await eventually(lambda: replaced(world, container_id, old), "what ends is replaced by its like")
        assert (await world.container(container_id)).rollout is not None, "and the canary goes on"
        await world.ask(partial(change_canary, wanted=CanaryRequest(share=10)), container_id)
        await eventually(lambda: serves(world, container_id, 1), "a smaller share takes fewer replicas")
        await scale(world, container_id, min_replicas=1, max_replicas=1)
        await eventually(lambda: of_old(world, container_id, 1), "fewer again")
        assert await serves(world, container_id, 1)
        (on_trial,) = await routed_ids(world, container_id, 2)
        world.machine.end(on_trial, exit_code=3)
        await eventually(lambda: went_back(world, container_id), "one that crashes is dropped")
    assert (await world.container(container_id)).reason == "exited"


async def no_slot_paid_wrongly(world: World) -> bool:
    async with world.database.transaction() as session:
        return await find_slots_paid_wrongly(session) == []


async def replaced(world: World, container_id: str, old: str) -> bool:
    found = await routed_ids(world, container_id, 1)
    return len(found) == 4 and old not in found


@pytest.mark.long
async def test_a_replica_on_trial_whose_machine_loses_it_is_replaced(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await begin(world)
        (lost,) = await routed_ids(world, container_id, 2)
        world.machine.lose(lost)

        async def another() -> bool:
            found = await routed_ids(world, container_id, 2)
            return len(found) == 1 and lost not in found

        await eventually(another, "that says nothing about the version")
        assert (await world.container(container_id)).rollout is not None


@pytest.mark.long
async def test_one_that_fails_its_health_checks_is_dropped(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await begin(world)
        (hangs,) = await routed_ids(world, container_id, 2)
        world.failing[hangs] = Health("timeout", None, 0)
        await eventually(lambda: went_back(world, container_id), "it is dropped", timeout_s=30)
    assert (await world.container(container_id)).reason == "health_check_timeout"


@pytest.mark.long
async def test_a_stop_calls_it_off_and_a_start_is_of_the_old_one(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await begin(world)
        await world.ask(service.stop_container, container_id)
        await world.ask(service.start_container, container_id)
        await eventually(lambda: gone(world, container_id, 2), "nothing of the canary is left")
        await eventually(lambda: settled(world, container_id), "it runs")
        await eventually(lambda: paid_rightly(world, container_id), "each slot has its hour")
        row = await world.container(container_id)
        assert (row.version, environment(row), row.rollout) == (1, {"WORD": "old"}, None)
        assert await outcomes(world, container_id) == {1: "serving", 2: "rolled_back"}
        await world.ask(canary, container_id)
        await eventually(lambda: serves(world, container_id, 1, version=3), "another canary serves")
        await world.ask(service.delete_container, container_id)
        await eventually(lambda: world.nothing_left(container_id), "all of it goes with the container")


@pytest.mark.long
async def test_without_credit_for_the_next_hour_both_go(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await begin(world)
        async with world.database.transaction() as session:
            row = await lock_container(session, container_id)
            await service.stop_because(session, row, service.Reason.STOPPED_NO_CREDIT)
        await eventually(lambda: world.nothing_left(container_id), "nothing runs")
    row = await world.container(container_id)
    assert (row.version, row.rollout, environment(row)) == (1, None, {"WORD": "old"})
    assert (await versions(world, container_id))[2].outcome == "rolled_back"


@pytest.mark.long
async def test_undecided_for_too_long_it_is_dropped(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await begin(world)
        async with world.database.transaction() as session:
            await session.execute(
                text(
                    'UPDATE containers SET rollout = rollout || \'{"begun_at": "2020-01-01T00:00:00+00:00"}\''
                )
            )
        await eventually(lambda: went_back(world, container_id), "it is dropped")
    assert (await versions(world, container_id))[2].reason == "Nobody promoted it within 24 hours."


async def test_another_type_of_machine_does_not_compare(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
    resources = {"mode": "autoscaling", "instance_type": "cpu-small", "min_replicas": 1, "max_replicas": 1}
    await draft(world, container_id, resources=resources)
    with pytest.raises(ConflictError, match="instance type"):
        await world.ask(canary, container_id)


@pytest.fixture
async def doomed(database_dsn: str) -> AsyncIterator[DoomedDatabase]:
    opened = DoomedDatabase(database_dsn)
    yield opened
    await opened.close()


@pytest.mark.long
@pytest.mark.parametrize("how", ["promoted", "aborted", "crashes"])
async def test_killed_at_every_step(world: World, doomed: DoomedDatabase, how: str) -> None:
    """The controller dies at the n-th of its writes, for every n; the next one ends what it began, and something serves
    all the time."""
    container_id = await world.create(env={"WORD": "old"})
    async with life(world, WatchedEngine(world.machine)) as calm:
        await rounds(world, container_id, calm)
    world.fewest_enabled[container_id] = 1
    image, points = ("local/crash:latest" if how == "crashes" else "local/chat:latest"), 0
    for at in range(1, 200):
        before = environment(await world.container(container_id))
        await draft(world, container_id, image=image, env={"WORD": f"new-{at}"})
        await world.ask(canary, container_id)
        doom, doomed.doom = Doom(at=at), Doom()
        async with life(world, WatchedEngine(world.machine), doomed) as first:
            doomed.doom = doom
            await decided(world, container_id, how)
            await rounds(world, container_id, first, doom)
        if doom.dead:
            async with life(world, WatchedEngine(world.machine)) as second:
                await rounds(world, container_id, second)
        row = await world.container(container_id)
        assert await settled(world, container_id), f"killed at write {at}"
        assert (row.fallback, row.trial_settings, row.rollout) == (None, None, None)
        after = {"WORD": f"new-{at}"} if how == "promoted" else before
        assert environment(row) == after, f"killed at write {at}"
        assert world.machine.twins == []
        assert world.fewest_enabled[container_id] == 1, f"nothing served: killed at write {at}"
        outcome = await outcomes(world, container_id)
        assert list(outcome.values()).count("serving") == 1
        assert outcome[max(outcome)] == ("serving" if how == "promoted" else "rolled_back")
        async with world.database.transaction() as session:  # or every look to come would read all of it
            await session.execute(text("DELETE FROM replicas WHERE state = 'removed'"))
        if not doom.dead:
            break
        points += 1
    print(f"{points} points of death")
    assert points > 10


async def decided(world: World, container_id: str, how: str) -> None:
    """Beforehand, as the API does not allow it: the pass that finds it serving does what it finds."""
    async with world.database.transaction() as session:
        row = await session.get(ContainerRow, container_id)
        assert row is not None
        rollout = Rollout.from_json(row.rollout)
        assert rollout is not None
        decision = {"promoted": {"promoted_by": "key_test"}, "aborted": {"called_off_by": "key_test"}}.get(
            how, {}
        )
        row.rollout = replace(rollout, **decision).to_json()

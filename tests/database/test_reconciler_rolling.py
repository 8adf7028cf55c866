"""Updates with `rolling`: the old version serves until the new one has proven itself, and what does not goes back by itself."""

from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

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
from sqlalchemy import select, text
from test_reconciler_drafts import draft, environment, only_current, rounds, running, settled, went_back

from moorage.catalog.repository import replace_nodes
from moorage.containers import service
from moorage.containers.drafts.service import apply_draft
from moorage.containers.models import ContainerRow
from moorage.containers.secrets import seal
from moorage.containers.spec import ContainerSecrets
from moorage.containers.states import Strategy
from moorage.containers.versions.models import VersionFiguresRow, VersionRow
from moorage.containers.versions.service import roll_back
from moorage.kit.database import Database
from moorage.kit.errors import ConflictError
from moorage.ledger.check_repository import find_differences, find_slots_paid_wrongly
from moorage.telemetry.logs.repository import sealed_secrets

WATCH_S = 1
apply = partial(
    apply_draft,
    keyring=KEYRING,
    settings=SETTINGS.model_copy(update={"update_watch_s": WATCH_S}),
    strategy=Strategy.ROLLING,
)
watched_for_long = partial(apply_draft, keyring=KEYRING, settings=SETTINGS, strategy=Strategy.ROLLING)


@pytest.fixture
async def world(database: Database) -> AsyncIterator[World]:
    made = await new_world(database)
    yield made
    async with database.transaction() as session:
        assert await find_differences(session) == []


async def versions(world: World, container_id: str) -> dict[int, VersionRow]:
    query = select(VersionRow).where(VersionRow.container_id == container_id)
    async with world.database.transaction() as session:
        return {one.version: one for one in (await session.execute(query)).scalars()}


async def outcomes(world: World, container_id: str) -> dict[int, str | None]:
    return {number: one.outcome for number, one in sorted((await versions(world, container_id)).items())}


async def routed_ids(world: World, container_id: str, version: int | None = None) -> set[str]:
    rows = await world.replicas(container_id, "routed")
    return {one.id for one in rows if version is None or one.version == version}


async def both_serve(world: World, container_id: str, replicas: int) -> bool:
    row = await world.container(container_id)
    beside = row.rollout is not None and row.rollout["from_generation"] is not None
    return beside and len(await routed_ids(world, container_id, row.version)) == replicas


async def paid_rightly(world: World, container_id: str) -> bool:
    async with world.database.transaction() as session:
        row = (
            await session.execute(select(ContainerRow).where(ContainerRow.id == container_id))
        ).scalar_one()
        return row.reconcile_at is None and await find_slots_paid_wrongly(session) == []


async def hours_bought(world: World) -> dict[str, int]:
    async with world.database.transaction() as session:
        query = "SELECT instance_type, count(*) FROM hours WHERE state = 'paid' GROUP BY 1"
        return {row[0]: row[1] for row in await session.execute(text(query))}


@pytest.mark.long
async def test_both_serve_until_the_new_one_has_proven_itself(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world, replicas=2)
        old = await routed_ids(world, container_id)
        world.fewest_enabled[container_id] = 2
        await draft(world, container_id, env={"WORD": "new"})
        await world.ask(apply, container_id)
        await eventually(lambda: both_serve(world, container_id, 2), "both versions serve")
        assert await routed_ids(world, container_id, 1) == old, "beside all of the old ones"
        await eventually(lambda: settled(world, container_id), "the new version has taken over")
        await eventually(lambda: only_current(world, container_id), "nothing old is left")
        await eventually(lambda: paid_rightly(world, container_id), "each slot has its hour")
        row = await world.container(container_id)
    assert world.fewest_enabled[container_id] == 2
    assert (row.generation, row.version, environment(row)) == (2, 2, {"WORD": "new"})
    assert (row.draft, row.fallback, row.rollout, row.trial_failure) == (None, None, None, None)
    assert {one.environment["WORD"] for one in world.machine.running()} == {"new"}
    assert await outcomes(world, container_id) == {1: "replaced", 2: "serving"}
    second = (await versions(world, container_id))[2]
    assert second.changes == [{"field": "env.WORD", "from": "***", "to": "***"}]
    assert (second.strategy, second.created_by, second.reason) == ("rolling", "key_test", None)
    assert (await versions(world, container_id))[1].served_s >= WATCH_S
    assert await hours_bought(world) == {"cpu-nano": 2}, "a slot has one hour, whichever version is in it"


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("local/crash:latest", "exited"),
        ("local/hungry:latest", "out_of_memory"),
        ("local/deaf:latest", "port_not_listening"),
    ],
)
@pytest.mark.long
async def test_what_does_not_become_healthy_goes_back_and_nothing_is_touched(
    world: World, image: str, reason: str
) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world, replicas=2)
        before, old = await world.container(container_id), await routed_ids(world, container_id)
        world.fewest_enabled[container_id] = 2
        await draft(world, container_id, image=image, env={"WORD": "new"})
        async with world.database.transaction() as session:
            changed = await watched_for_long(session, world.actor, container_id)
            # Shorter than the API allows, because a test does not wait that long.
            changed.row.trial_settings = {**(changed.row.trial_settings or {}), "health_timeout_s": 3}
        await eventually(lambda: went_back(world, container_id), "it went back")
        await eventually(lambda: only_current(world, container_id), "nothing of it is left")
        await eventually(lambda: paid_rightly(world, container_id), "each slot has its hour")
        row = await world.container(container_id)
        assert await routed_ids(world, container_id) == old, "the very same processes serve"
    assert world.fewest_enabled[container_id] == 2
    assert (row.settings, environment(row), row.version) == (before.settings, {"WORD": "old"}, 1)
    assert (row.image_ref, row.reason, row.generation) == (before.image_ref, reason, 3)
    assert row.draft is not None, "the draft is kept, to be fixed"
    assert await outcomes(world, container_id) == {1: "serving", 2: "rolled_back"}
    second = (await versions(world, container_id))[2]
    assert (second.served_s, second.served_since) == (0, None)
    assert second.reason is not None
    tried = [one for one in await world.replicas(container_id) if one.version == 2]
    assert len({one.slot for one in tried}) == 1, "one is tried before the others"
    assert await hours_bought(world) == {"cpu-nano": 2}


async def say(world: World, container_id: str, version: int, answers: int, errors: int) -> None:
    async with world.database.transaction() as session:
        await session.merge(
            VersionFiguresRow(
                container_id=container_id,
                version=version,
                gateway_id="gtw_test",
                answers=answers,
                errors=errors,
            )
        )


@pytest.mark.long
async def test_errors_above_the_bound_end_it_at_once(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world, replicas=2)
        old = await routed_ids(world, container_id)
        await draft(world, container_id, env={"WORD": "new"})
        await world.ask(watched_for_long, container_id)
        await eventually(lambda: both_serve(world, container_id, 2), "both versions serve")
        await say(world, container_id, 1, 1000, 20)
        await say(world, container_id, 2, 1000, 29)
        await eventually(lambda: looked_again(world, container_id), "a pass has looked at that")
        row = await world.container(container_id)
        assert row.rollout is not None, "1 % more than the version beside it is not above the bound"
        await say(world, container_id, 2, 1208, 77)
        await eventually(lambda: went_back(world, container_id), "it went back")
        assert await routed_ids(world, container_id) == old
        row = await world.container(container_id)
    assert row.reason == "errors_above_bound"
    second = (await versions(world, container_id))[2]
    assert second.reason == (
        "6.4 % of its 1,208 answers were errors; the bound is 1 %, and 2.0 % of the version before it."
    )
    assert (second.outcome, second.served_since) == ("rolled_back", None)
    assert second.served_s > 0


async def looked_again(world: World, container_id: str) -> bool:
    before = (await world.container(container_id)).next_look_at
    await eventually(lambda: _looked_since(world, container_id, before), "a pass")
    before = (await world.container(container_id)).next_look_at
    await eventually(lambda: _looked_since(world, container_id, before), "another pass")
    return True


async def _looked_since(world: World, container_id: str, before: object) -> bool:
    return (await world.container(container_id)).next_look_at != before


async def with_room_for(world: World, replicas: int) -> None:
    """Of cpu-nano: a quarter of a GiB each."""
    capacity = await WatchedEngine(world.machine).capacity()
    async with world.database.transaction() as session:
        query = "SELECT memory_bytes FROM instance_types WHERE name = 'cpu-nano'"
        each: int = (await session.execute(text(query))).scalar_one()
        shrunk = [replace(one, memory_bytes=replicas * each) for one in capacity]
        await replace_nodes(session, shrunk)


async def test_what_does_not_fit_beside_it_goes_back(world: World) -> None:
    container_id = await running_for_now(world)
    old = await routed_ids(world, container_id)
    await with_room_for(world, 2)
    world.machine.memory_bytes = await memory_of(world)
    async with driven(world, WatchedEngine(world.machine)):
        await draft(world, container_id, env={"WORD": "new"})
        await world.ask(apply, container_id)
        await eventually(lambda: went_back(world, container_id), "it went back")
        assert await routed_ids(world, container_id) == old
    row = await world.container(container_id)
    assert row.reason == "no_capacity"
    assert await outcomes(world, container_id) == {1: "serving", 2: "rolled_back"}


@pytest.mark.long
async def test_where_only_one_more_fits_they_change_slot_by_slot(world: World) -> None:
    container_id = await running_for_now(world)
    await with_room_for(world, 3)
    world.machine.memory_bytes = await memory_of(world)
    world.fewest_enabled[container_id] = 2
    async with driven(world, WatchedEngine(world.machine)):
        await draft(world, container_id, env={"WORD": "new"})
        await world.ask(apply, container_id)
        await eventually(lambda: settled(world, container_id), "the new version has taken over")
        await eventually(lambda: paid_rightly(world, container_id), "each slot has its hour")
    assert world.fewest_enabled[container_id] == 2
    assert await outcomes(world, container_id) == {1: "replaced", 2: "serving"}


async def running_for_now(world: World) -> str:
    async with driven(world, WatchedEngine(world.machine)):
        return await running(world, replicas=2)


async def memory_of(world: World) -> int:
    async with world.database.transaction() as session:
        return int((await session.execute(text("SELECT memory_bytes FROM nodes"))).scalar_one())


@pytest.mark.long
async def test_another_instance_type_is_bought_when_it_is_ready(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world, replicas=2)
        resources = {
            "mode": "autoscaling",
            "instance_type": "cpu-small",
            "min_replicas": 2,
            "max_replicas": 2,
        }
        await draft(world, container_id, resources=resources, image="local/crash:latest")
        await world.ask(apply, container_id)
        await eventually(lambda: went_back(world, container_id), "it went back")
        await eventually(lambda: paid_rightly(world, container_id), "each slot has its hour")
        assert await hours_bought(world) == {"cpu-nano": 2}, "what never was ready costs nothing"
        await draft(world, container_id, resources=resources)
        await world.ask(apply, container_id)
        await eventually(lambda: both_serve(world, container_id, 2), "both versions serve")
        await eventually(lambda: settled(world, container_id), "the new version has taken over")
        await eventually(lambda: paid_rightly(world, container_id), "each slot has its hour")
    assert await hours_bought(world) == {"cpu-nano": 2, "cpu-small": 2}


async def test_without_credit_for_it_nothing_changes(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world, replicas=2)
        old = await routed_ids(world, container_id)
        async with world.database.transaction() as session:
            await session.execute(text("UPDATE credit_accounts SET available_microusd = 0"))
        resources = {
            "mode": "autoscaling",
            "instance_type": "cpu-small",
            "min_replicas": 2,
            "max_replicas": 2,
        }
        await draft(world, container_id, resources=resources)
        await world.ask(apply, container_id)
        await eventually(lambda: went_back(world, container_id), "it went back")
        assert await routed_ids(world, container_id) == old
        async with world.database.transaction() as session:
            await session.execute(
                text(
                    "UPDATE credit_accounts a SET available_microusd = (SELECT sum(amount_microusd) FROM"
                    " ledger_entries WHERE account = 'credit:' || a.organization_id) - held_microusd"
                )
            )
    row = await world.container(container_id)
    assert row.reason == "insufficient_credit"


@pytest.mark.long
async def test_back_to_any_version_with_its_secrets_and_its_image(world: World) -> None:
    back = partial(roll_back, keyring=KEYRING)
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
        for word in ("second", "third"):
            await draft(world, container_id, env={"WORD": word})
            await world.ask(apply, container_id)
            await eventually(lambda: settled(world, container_id), f"{word} has taken over")
        await draft(world, container_id, env={"WORD": "waits"})
        world.fewest_enabled[container_id] = 1
        await world.ask(partial(back, number=1), container_id)
        await eventually(lambda: settled(world, container_id), "the first is back")
        await eventually(lambda: only_current(world, container_id), "nothing else is left")
        row = await world.container(container_id)
        with pytest.raises(ConflictError, match="present one"):
            await world.ask(partial(back, number=4), container_id)
    assert world.fewest_enabled[container_id] == 1
    assert (row.version, environment(row)) == (4, {"WORD": "old"})
    assert row.draft is not None, "that is another matter"
    found = await versions(world, container_id)
    first, fourth = found[1], found[4]
    assert fourth.image == first.image
    assert (fourth.reason, fourth.strategy, fourth.settings) == (
        "Back to version 1.",
        "rolling",
        first.settings,
    )
    assert await outcomes(world, container_id) == {1: "replaced", 2: "replaced", 3: "replaced", 4: "serving"}


async def test_rolled_back_by_hand_while_both_serve(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world, replicas=2)
        old = await routed_ids(world, container_id)
        await draft(world, container_id, env={"WORD": "new"})
        await world.ask(watched_for_long, container_id)
        await eventually(lambda: both_serve(world, container_id, 2), "both versions serve")
        await world.ask(partial(roll_back, number=1, keyring=KEYRING), container_id)
        await eventually(lambda: went_back(world, container_id), "it went back")
        assert await routed_ids(world, container_id) == old
    assert (await world.container(container_id)).reason == "rolled_back"
    assert await outcomes(world, container_id) == {1: "serving", 2: "rolled_back"}


async def test_called_off_before_its_image_is_known(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
    await draft(world, container_id, env={"WORD": "new"})
    await world.ask(apply, container_id)
    await world.ask(partial(roll_back, number=1, keyring=KEYRING), container_id)
    row = await world.container(container_id)
    assert (row.rollout, row.trial_settings, row.generation, row.version) == (None, None, 1, 1)
    assert await outcomes(world, container_id) == {1: "serving", 2: "rolled_back"}


async def test_from_rest_it_starts_with_the_image_of_then(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
        await draft(world, container_id, image="local/crash:latest")
        await world.ask(service.stop_container, container_id)

        async def stopped() -> bool:
            return (await world.container(container_id)).state == "STOPPED"

        await eventually(stopped, "it stops")
        await world.ask(apply, container_id)

        async def failed() -> bool:
            return (await world.container(container_id)).state == "FAILED"

        await eventually(failed, "what was applied from rest fails, and there is nothing to go back to")
        assert (await outcomes(world, container_id))[2] == "failed"
        await world.ask(partial(roll_back, number=1, keyring=KEYRING), container_id)
        await eventually(lambda: settled(world, container_id), "the first is back")
    row = await world.container(container_id)
    assert (row.version, row.settings["image"]) == (3, "local/chat:latest")
    assert await outcomes(world, container_id) == {1: "replaced", 2: "failed", 3: "serving"}


@pytest.mark.long
async def test_what_serves_comes_first(world: World) -> None:
    """A replica of the old version that ends while the new one comes up is started again, as if there were no update."""
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
        await draft(world, container_id, image="local/deaf:latest")
        await world.ask(watched_for_long, container_id)
        await eventually(lambda: comes_up(world, container_id), "the new version comes up")
        (old,) = await routed_ids(world, container_id)
        world.machine.end(old, exit_code=7)
        await eventually(lambda: went_back(world, container_id), "the old version serves again", timeout_s=30)
    row = await world.container(container_id)
    assert (row.settings["image"], row.version, row.reason) == ("local/chat:latest", 1, "exited")
    assert "A replica of the version that serves ended" in (row.message or "")
    assert await outcomes(world, container_id) == {1: "serving", 2: "rolled_back"}


async def comes_up(world: World, container_id: str) -> bool:
    return any(one.version == 2 for one in await world.replicas(container_id, "starting"))


async def test_a_stop_in_the_middle_leaves_the_old_settings(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world, replicas=2)
        await draft(world, container_id, env={"WORD": "new"})
        await world.ask(watched_for_long, container_id)
        await eventually(lambda: both_serve(world, container_id, 2), "both versions serve")
        await world.ask(service.stop_container, container_id)
        await eventually(lambda: world.nothing_left(container_id), "it stops")
        row = await world.container(container_id)
        assert (environment(row), row.version, row.rollout) == ({"WORD": "old"}, 1, None)
        assert await outcomes(world, container_id) == {1: "serving", 2: "rolled_back"}
        await world.ask(service.start_container, container_id)
        await eventually(lambda: settled(world, container_id), "it runs again")
        await eventually(lambda: paid_rightly(world, container_id), "each slot has its hour")


async def test_what_both_share_at_the_gateway_cannot_change(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
        await draft(world, container_id, health_check={"path": "/other"})
        with pytest.raises(ConflictError, match=r"health_check\.path cannot change"):
            await world.ask(apply, container_id)


@pytest.fixture
async def doomed(database_dsn: str) -> AsyncIterator[DoomedDatabase]:
    opened = DoomedDatabase(database_dsn)
    yield opened
    await opened.close()


@pytest.mark.long
@pytest.mark.parametrize("image", ["local/chat:latest", "local/crash:latest"])
async def test_killed_at_every_step(world: World, doomed: DoomedDatabase, image: str) -> None:
    """The controller dies at the n-th of its writes, for every n; the next one ends what it began, and something serves
    all the time."""
    container_id = await world.create(env={"WORD": "old"})
    at_once = partial(
        apply_draft,
        keyring=KEYRING,
        settings=SETTINGS.model_copy(update={"update_watch_s": 0}),
        strategy=Strategy.ROLLING,
    )
    async with life(world, WatchedEngine(world.machine)) as calm:
        await rounds(world, container_id, calm)
    world.fewest_enabled[container_id] = 1
    good, points = image == "local/chat:latest", 0
    for at in range(1, 200):
        word = f"new-{at}" if good else "new"
        before = environment(await world.container(container_id))
        await draft(world, container_id, image=image, env={"WORD": word})
        await world.ask(at_once, container_id)
        doom, doomed.doom = Doom(at=at), Doom()
        async with life(world, WatchedEngine(world.machine), doomed) as first:
            doomed.doom = doom
            await rounds(world, container_id, first, doom)
        if doom.dead:
            async with life(world, WatchedEngine(world.machine)) as second:
                await rounds(world, container_id, second)
        row = await world.container(container_id)
        assert await settled(world, container_id), f"killed at write {at}"
        assert (row.fallback, row.trial_settings, row.rollout) == (None, None, None)
        assert environment(row) == ({"WORD": word} if good else before), f"killed at write {at}"
        assert world.machine.twins == []
        assert world.fewest_enabled[container_id] == 1, f"nothing served: killed at write {at}"
        outcome = await outcomes(world, container_id)
        assert list(outcome.values()).count("serving") == 1
        assert outcome[max(outcome)] == ("serving" if good else "rolled_back"), f"killed at write {at}"
        async with world.database.transaction() as session:  # or every look to come would read all of it
            await session.execute(text("DELETE FROM replicas WHERE state = 'removed'"))
        if not doom.dead:
            break
        points += 1
    print(f"{points} points of death")
    assert points > 10


async def test_secrets_of_a_version_are_covered_for_as_long_as_it_speaks(world: World) -> None:
    """A replica of the old version drains, and writes lines, when the container has nothing of its settings left."""
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
    first = (await versions(world, container_id))[1].secrets
    other = seal(KEYRING, container_id, ContainerSecrets(environment={"WORD": "new"}))
    async with world.database.transaction() as session:
        row = (
            await session.execute(select(ContainerRow).where(ContainerRow.id == container_id))
        ).scalar_one()
        row.secrets, row.version = other, 2
    async with world.database.transaction() as session:
        assert await sealed_secrets(session, container_id) == [other, first]

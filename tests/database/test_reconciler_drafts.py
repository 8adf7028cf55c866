"""Drafts that are applied: the new settings serve, or those from before do again, whatever dies on the way."""

import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from reconciler_support import (
    KEYRING,
    SETTINGS,
    Doom,
    DoomedDatabase,
    Life,
    WatchedEngine,
    World,
    driven,
    eventually,
    life,
    new_world,
)
from sqlalchemy import select, text

from moorage.autoscaling.schemas import ScaleRequest
from moorage.autoscaling.service import change_scaling
from moorage.containers import service
from moorage.containers.drafts.service import apply_draft, save_draft
from moorage.containers.models import ActivityRow, ContainerRow
from moorage.containers.schemas import ContainerPatch, SettingsPatch
from moorage.containers.secrets import unseal
from moorage.containers.states import TrialStep
from moorage.containers.trial import trial_step
from moorage.kit.database import Database
from moorage.kit.errors import ConflictError

with_keys: dict[str, Any] = {"keyring": KEYRING, "settings": SETTINGS}
apply = partial(apply_draft, **with_keys)


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def draft(world: World, container_id: str, **changes: Any) -> None:
    async with world.database.transaction() as session:
        patch = SettingsPatch.model_validate(changes)
        await save_draft(session, world.actor, container_id, patch, **with_keys)


async def settled(world: World, container_id: str) -> bool:
    row = await world.container(container_id)
    routed = await world.replicas(container_id, "routed")
    return (
        row.state == "RUNNING"
        and trial_step(row) is None
        and len(routed) == row.desired_replicas
        and all(one.generation == row.generation for one in routed)
    )


async def activities(world: World, container_id: str) -> list[ActivityRow]:
    query = select(ActivityRow).where(ActivityRow.container_id == container_id).order_by(ActivityRow.at)
    async with world.database.transaction() as session:
        return list((await session.execute(query)).scalars())


def environment(row: ContainerRow) -> dict[str, str]:
    return unseal(KEYRING, row.id, row.secrets).environment


async def running(world: World, **settings: Any) -> str:
    container_id = await world.create(env={"WORD": "old"}, **settings)
    await eventually(lambda: settled(world, container_id), "it runs")
    return container_id


async def test_good_settings_replace_the_old_ones(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world, replicas=2, plain_env={"LEVEL": "info"})
        await draft(world, container_id, env={"WORD": "new"}, health_check={"path": "/other"})
        await world.ask(apply, container_id)
        await eventually(lambda: settled(world, container_id), "the new settings serve")
        await eventually(lambda: only_current(world, container_id), "nothing old is left")
        row = await world.container(container_id)
    assert (row.generation, row.settings["health_path"], environment(row)) == (2, "/other", {"WORD": "new"})
    assert (row.draft, row.fallback, row.fallback_secrets, row.trial_failure) == (None, None, None, None)
    assert {one.environment["WORD"] for one in world.machine.running()} == {"new"}
    assert {one.environment["LEVEL"] for one in world.machine.running()} == {"info"}
    kinds = [one.kind for one in await activities(world, container_id)]
    assert kinds.index("container.draft_apply") < kinds.index("container.draft_applied")


async def only_current(world: World, container_id: str) -> bool:
    row = await world.container(container_id)
    return len(world.machine.ids_of(container_id)) == row.desired_replicas


@pytest.mark.parametrize(
    ("image", "reason"), [("local/crash:latest", "exited"), ("local/hungry:latest", "out_of_memory")]
)
@pytest.mark.long
async def test_bad_settings_go_back_by_themselves(world: World, image: str, reason: str) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
        before = await world.container(container_id)
        await draft(world, container_id, image=image, env={"WORD": "new"})
        await world.ask(apply, container_id)
        await eventually(lambda: went_back(world, container_id), "the settings from before serve again")
        row = await world.container(container_id)
        assert (row.settings, environment(row)) == (before.settings, {"WORD": "old"})
        assert (row.image_ref, row.image_digest, row.port) == (
            before.image_ref,
            before.image_digest,
            before.port,
        )
        assert {one.environment["WORD"] for one in world.machine.running()} == {"old"}
        assert row.trial_failure is not None
        assert (row.reason, row.trial_failure["reason"]) == (reason, reason)
        assert (row.message or "").startswith("The new settings failed, so it runs with the previous ones. ")
        record = next(
            one for one in await activities(world, container_id) if one.kind == "container.draft_failed"
        )
        assert (record.actor, record.reason) == ("system", reason)
        assert (record.message or "").endswith("It went back to the previous settings.")
        assert row.draft is not None, "the draft is kept, to be fixed"

        await world.ask(service.restart_container, container_id)
        await eventually(lambda: settled(world, container_id), "it runs on")
        row = await world.container(container_id)
        assert (row.message, row.trial_failure) == (None, None), (
            "what somebody did since is no news of the draft"
        )


async def went_back(world: World, container_id: str) -> bool:
    row = await world.container(container_id)
    told = row.trial_failure is not None and row.reason == row.trial_failure["reason"]
    return told and await settled(world, container_id)


async def test_an_image_that_cannot_be_had_stops_nothing(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
        before = await world.replicas(container_id, "routed")
        await draft(world, container_id, image="local/missing:latest")
        await world.ask(apply, container_id)
        await eventually(lambda: went_back(world, container_id), "it is told")
        row = await world.container(container_id)
        assert (row.generation, row.reason, row.state) == (1, "image_not_found", "RUNNING")
        assert [one.id for one in await world.replicas(container_id, "routed")] == [one.id for one in before]


async def test_what_there_is_no_room_for_does_not_wait(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
        await draft(world, container_id, resources={"mode": "general", "instance_type": "h200-141gb"})
        await world.ask(apply, container_id)
        await eventually(lambda: went_back(world, container_id), "it runs where it ran before")
        row = await world.container(container_id)
        assert (row.reason, row.instance_type) == ("no_capacity", "cpu-nano")


@pytest.mark.long
async def test_a_stop_calls_it_off(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
        await draft(world, container_id, image="local/deaf:latest", env={"WORD": "new"})
        await world.ask(apply, container_id)
        await eventually(lambda: on_generation(world, container_id, 2), "the new settings are tried")
        await world.ask(service.stop_container, container_id)

        async def stopped() -> bool:
            row = await world.container(container_id)
            return row.state == "STOPPED" and await world.nothing_left(container_id)

        await eventually(stopped, "it stops")
        row = await world.container(container_id)
        assert (row.settings["image"], environment(row)) == ("local/chat:latest", {"WORD": "old"})
        assert (row.fallback, row.draft is not None) == (None, True)


async def on_generation(world: World, container_id: str, generation: int) -> bool:
    return any(one.generation == generation for one in await world.replicas(container_id, "starting"))


@pytest.fixture
async def doomed(database_dsn: str) -> AsyncIterator[DoomedDatabase]:
    opened = DoomedDatabase(database_dsn)
    yield opened
    await opened.close()


async def rounds(world: World, container_id: str, one_life: Life, doom: Doom | None = None) -> None:
    for _ in range(25):
        if (doom is not None and doom.dead) or await settled(world, container_id):
            return
        await one_life.round(container_id, doom)


@pytest.mark.long
async def test_killed_at_every_step(world: World, doomed: DoomedDatabase) -> None:
    """The controller dies at the n-th of its writes, for every n; the next one ends what it began. The settings that
    are tried fail, so that every step is taken: fetch, stop, exchange, try, go back."""
    container_id = await world.create(env={"WORD": "old"})
    async with life(world, WatchedEngine(world.machine)) as calm:
        await rounds(world, container_id, calm)
    points = 0
    for at in range(1, 200):
        await draft(world, container_id, image="local/crash:latest", env={"WORD": "new"})
        await world.ask(apply, container_id)
        doom, doomed.doom = Doom(at=at), Doom()
        async with life(world, WatchedEngine(world.machine), doomed) as first:
            doomed.doom = doom
            await rounds(world, container_id, first, doom)
        if doom.dead:
            async with life(world, WatchedEngine(world.machine)) as second:
                await rounds(world, container_id, second)
        row = await world.container(container_id)
        assert await settled(world, container_id), f"killed at write {at}"
        assert (environment(row), row.fallback, row.trial_settings) == ({"WORD": "old"}, None, None)
        assert row.trial_failure is not None, f"killed at write {at}"
        assert {one.environment["WORD"] for one in world.machine.running()} == {"old"}
        assert world.machine.twins == []
        async with world.database.transaction() as session:  # or every look to come would read all of it
            await session.execute(text("DELETE FROM replicas WHERE state = 'removed'"))
        if not doom.dead:
            break
        points += 1
    print(f"{points} points of death, each followed by the settings from before")
    assert points > 10


async def test_what_fails_while_a_draft_is_applied_is_not_edited_beside_it(world: World) -> None:
    """The draft's settings would take the place of the edited ones, and nobody would be told."""
    container_id = await running_by_hand(world)
    await draft(world, container_id, env={"WORD": "new"})
    await world.ask(apply, container_id)
    async with world.database.transaction() as session:
        await session.execute(
            text(
                "UPDATE containers SET state = 'FAILED', failed_generation = generation, failure_fix = :fix"
            ),
            {"fix": json.dumps({"field": "port", "before": 8000, "after": 9000})},
        )
    assert trial_step(await world.container(container_id)) is TrialStep.PREPARE
    edit = partial(service.edit_container, patch=ContainerPatch(start_command="edited"), **with_keys)
    fix = partial(service.apply_fix, seen=None, **with_keys)
    for change in (edit, fix):
        with pytest.raises(ConflictError, match="draft is being applied"):
            await world.ask(change, container_id)
    await world.ask(service.stop_container, container_id)
    async with life(world, WatchedEngine(world.machine)) as controller:
        await rounds(world, container_id, controller)
    await world.ask(edit, container_id)
    assert (await world.container(container_id)).settings["start_command"] == "edited"


async def running_by_hand(world: World) -> str:
    container_id = await world.create(env={"WORD": "old"})
    async with life(world, WatchedEngine(world.machine)) as controller:
        await rounds(world, container_id, controller)
    assert await settled(world, container_id)
    return container_id


def scaling(row: ContainerRow) -> tuple[int, int]:
    return row.settings["min_replicas"], row.settings["max_replicas"]


async def scale(world: World, container_id: str, **policy: int) -> None:
    async with world.database.transaction() as session:
        await change_scaling(session, world.actor, container_id, ScaleRequest(**policy))


async def test_scaling_chosen_while_a_draft_is_applied_stays_chosen(world: World) -> None:
    """The draft was laid over the settings when its trial began; a choice made after that is the newer one."""
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
    await draft(world, container_id, env={"WORD": "new"})
    await world.ask(apply, container_id)
    await scale(world, container_id, min_replicas=2, max_replicas=3)
    async with driven(world, WatchedEngine(world.machine)):
        await eventually(lambda: settled(world, container_id), "the new settings serve")
    row = await world.container(container_id)
    assert (environment(row), scaling(row)) == ({"WORD": "new"}, (2, 3))

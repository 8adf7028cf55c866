"""What somebody asks for while a pass goes on: the pass was made for another wish, and says nothing about this one."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from reconciler_support import KEYRING, SETTINGS, Life, WatchedEngine, World, life, new_world
from sqlalchemy import select
from test_failure_mail import mails, new_member

from moorage.containers import service, suspension
from moorage.containers.drafts.service import apply_draft, save_draft
from moorage.containers.models import ActivityRow
from moorage.containers.schemas import ContainerPatch, SettingsPatch
from moorage.containers.trial import is_on_trial
from moorage.kit.database import Database
from moorage.kit.errors import ConflictError

with_keys: dict[str, Any] = {"keyring": KEYRING, "settings": SETTINGS}
apply = partial(apply_draft, **with_keys)
edit = partial(service.edit_container, patch=ContainerPatch(image="local/other:latest"), **with_keys)


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def rounds(alive: Life, container_id: str, count: int = 4) -> None:
    for _ in range(count):
        await alive.round(container_id)


async def pass_meets(alive: Life, engine: WatchedEngine, container_id: str, wish: Callable[..., Any]) -> None:
    """Somebody asks for `wish` after a pass has read the rows, and before it writes."""
    asked = False

    async def ask(_: str) -> None:
        nonlocal asked
        if not asked:
            asked = True
            await alive.world.ask(wish, container_id)

    engine.before = ask
    await alive.reconciler.reconcile(container_id, alive.lease)
    assert asked


async def states_told(world: World, container_id: str) -> list[str]:
    query = select(ActivityRow).where(ActivityRow.container_id == container_id).order_by(ActivityRow.at)
    async with world.database.transaction() as session:
        told = (await session.execute(query)).scalars()
        return [one.details["to"] for one in told if one.kind == "container.state"]


async def test_a_stop_during_a_pass_is_not_shown_as_running_again(world: World) -> None:
    """A draft that is applied then would be taken for one of a container that runs, and the container stops all the same."""
    engine = WatchedEngine(world.machine)
    async with life(world, engine) as alive:
        container_id = await world.create()
        await rounds(alive, container_id)
        async with world.database.transaction() as session:
            patch = SettingsPatch.model_validate({"env": {"WORD": "new"}})
            await save_draft(session, world.actor, container_id, patch, **with_keys)
        told = await states_told(world, container_id)
        await pass_meets(alive, engine, container_id, service.stop_container)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("STOPPING", "stopped_by_user")
        assert await states_told(world, container_id) == told
        with pytest.raises(ConflictError, match="it is STOPPING"):
            await world.ask(apply, container_id)
        assert not is_on_trial(await world.container(container_id))
        await rounds(alive, container_id)
        assert (await world.container(container_id)).state == "STOPPED"
        assert await states_told(world, container_id) == [*told, "STOPPED"]


async def test_a_start_during_the_pass_that_finds_it_stopped_is_not_shown_as_stopped(world: World) -> None:
    """Its settings could be changed then, while its replicas start with those from before."""
    engine = WatchedEngine(world.machine)
    async with life(world, engine) as alive:
        container_id = await world.create()
        await rounds(alive, container_id)
        await world.ask(service.stop_container, container_id)
        await rounds(alive, container_id, 2)  # It drains, and its process ends.
        await pass_meets(alive, engine, container_id, service.start_container)
        assert (await world.container(container_id)).state == "PENDING"
        with pytest.raises(ConflictError, match="The container is PENDING"):
            await world.ask(edit, container_id)


async def test_a_restart_during_the_pass_that_gives_up_is_not_told_of_as_failed(world: World) -> None:
    engine = WatchedEngine(world.machine)
    await new_member(world, "ada", "admin")
    async with life(world, engine) as alive:
        container_id = await world.create("local/crash:latest")
        await rounds(alive, container_id, 2)  # It is started, and seen.
        await pass_meets(alive, engine, container_id, service.restart_container)
        row = await world.container(container_id)
        assert (row.state, row.generation, row.failed_generation) == ("PENDING", 2, 1)
        assert await mails(world) == []
        with pytest.raises(ConflictError, match="The container is PENDING"):
            await world.ask(edit, container_id)
        await rounds(alive, container_id)
        assert (await world.container(container_id)).state == "FAILED"
        assert len(await mails(world)) == 1, "of the second, which nobody called off"


@pytest.mark.long
async def test_what_a_resumed_organization_runs_again_is_not_edited(world: World) -> None:
    """It stopped without being asked to, and runs again by itself: with its image from before."""
    engine, organization_id = WatchedEngine(world.machine), world.project.organization_id
    change: Callable[..., Awaitable[Any]]
    async with life(world, engine) as alive:
        container_id = await world.create()
        await rounds(alive, container_id)
        async with world.database.transaction() as session:
            await suspension.suspend(session, organization_id, "usr_operator", "abuse")
        await rounds(alive, container_id)
        async with world.database.transaction() as session:
            await suspension.resume(session, organization_id, "usr_operator")
        assert (await world.container(container_id)).state == "STOPPED"
        with pytest.raises(ConflictError, match="The container is about to start"):
            await world.ask(edit, container_id)
        for change in (service.stop_container, edit):
            await world.ask(change, container_id)
            await rounds(alive, container_id)
        assert (await world.container(container_id)).settings["image"] == "local/other:latest"

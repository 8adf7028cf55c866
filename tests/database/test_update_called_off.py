"""An update that is called off while its image is fetched: what the fetch finds is not the next update's."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from reconciler_support import KEYRING, SETTINGS, WatchedEngine, World, driven, new_world
from test_reconciler_drafts import draft, running
from test_reconciler_rolling import versions

from moorage.containers.canaries.service import abort_canary
from moorage.containers.drafts.service import apply_draft
from moorage.containers.models import ContainerRow
from moorage.containers.reconciler import trials
from moorage.containers.reconciler.repository import FoundImage
from moorage.containers.service import Changed, delete_container
from moorage.containers.states import Reason, Strategy
from moorage.containers.verdict import Verdict
from moorage.containers.versions.service import roll_back
from moorage.kit.database import Database

Change = Callable[..., Awaitable[Changed]]

apply = partial(apply_draft, keyring=KEYRING, settings=SETTINGS, strategy=Strategy.ROLLING)
canary = partial(apply_draft, keyring=KEYRING, settings=SETTINGS, strategy=Strategy.CANARY, share=10)
back = partial(roll_back, number=1, keyring=KEYRING)


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def updated_twice(world: World, *, first: Change = apply, ended_by: Change = back) -> ContainerRow:
    """The container as it was when the fetch of the first update's image began, which has not ended."""
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
    await draft(world, container_id, image="local/first:latest")
    await world.ask(first, container_id)
    fetched_for = await world.container(container_id)
    await world.ask(ended_by, container_id)
    await draft(world, container_id, image="local/second:latest")
    await world.ask(apply, container_id)
    return fetched_for


async def fetched(world: World, fetched_for: ContainerRow, found: FoundImage | Verdict) -> None:
    async with world.database.transaction() as session:
        await trials.record_image(session, fetched_for, found)


@pytest.mark.parametrize(("first", "ended_by"), [(apply, back), (canary, abort_canary)])
@pytest.mark.long
async def test_its_image_is_not_the_next_ones(world: World, first: Change, ended_by: Change) -> None:
    fetched_for = await updated_twice(world, first=first, ended_by=ended_by)
    await fetched(world, fetched_for, FoundImage("sha256:first", "sha256:first", 8000))
    row = await world.container(fetched_for.id)
    assert (row.version, row.trial_image, row.image_ref) == (1, None, fetched_for.image_ref)
    assert (await versions(world, row.id))[3].image is None
    # The next pass fetches the right one.
    await fetched(world, row, FoundImage("sha256:second", "sha256:second", 8000))
    row = await world.container(row.id)
    assert (row.version, row.image_ref) == (3, "sha256:second")


async def test_its_failure_is_not_the_next_ones(world: World) -> None:
    fetched_for = await updated_twice(world)
    await fetched(world, fetched_for, Verdict(Reason.IMAGE_NOT_FOUND, "There is no such image."))
    row = await world.container(fetched_for.id)
    third = (await versions(world, row.id))[3]
    assert (third.outcome, third.reason, row.trial_failure) == (None, None, None)


async def test_a_container_that_was_deleted_keeps_its_settings(world: World) -> None:
    async with driven(world, WatchedEngine(world.machine)):
        container_id = await running(world)
    await draft(world, container_id, image="local/first:latest")
    await world.ask(apply, container_id)
    fetched_for = await world.container(container_id)
    await world.ask(delete_container, container_id)
    await fetched(world, fetched_for, FoundImage("sha256:first", "sha256:first", 8000))
    row = await world.container(container_id)
    assert (row.version, row.generation, row.settings) == (1, 1, fetched_for.settings)

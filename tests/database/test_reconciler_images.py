"""Images that nothing runs any more go, and no others."""

from dataclasses import replace

import pytest
from reconciler_support import SETTINGS, WatchedEngine, World, engines_of, life, new_world
from sqlalchemy import text

from moorage.containers import service
from moorage.containers.reconciler.image_cleaning import ImageCleaning
from moorage.engines.base import LOCAL_ENGINE
from moorage.engines.simulated_machine import engine_ref
from moorage.kit.clock import VirtualClock
from moorage.kit.database import Database

CHAT, OTHER = "docker.io/acme/chat:1", "docker.io/acme/other:1"


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def execute(world: World, statement: str, **values: str) -> None:
    async with world.database.transaction() as session:
        await session.execute(text(statement), values)


async def test_an_image_goes_when_it_was_unused_for_long_enough(world: World) -> None:
    engine, clock = WatchedEngine(world.machine), VirtualClock()
    image = world.machine.images["local/chat:latest"]
    world.machine.images = {**world.machine.images, CHAT: image, OTHER: replace(image, size_bytes=7)}
    world.machine.pulled |= {engine_ref(CHAT), engine_ref(OTHER)}
    container_id = await world.create()
    async with life(world, engine) as alive:
        await execute(world, "UPDATE containers SET image_ref = :ref", ref=engine_ref(CHAT))
        cleaning = ImageCleaning(world.database, engines_of(engine), SETTINGS, clock)
        await cleaning.clean(LOCAL_ENGINE, alive.lease)
        await clock.advance(SETTINGS.unused_images_kept_s - 1)
        await cleaning.clean(LOCAL_ENGINE, alive.lease)
        assert world.machine.pulled == {engine_ref(CHAT), engine_ref(OTHER)}, "it is kept for a while"
        await clock.advance(1)
        await cleaning.clean(LOCAL_ENGINE, alive.lease)
        assert world.machine.pulled == {engine_ref(CHAT)}, "what a container wants stays"
        await world.ask(service.stop_container, container_id)
        await cleaning.clean(LOCAL_ENGINE, alive.lease)
        await execute(world, "UPDATE containers SET desired_state = 'running'")
        await clock.advance(SETTINGS.unused_images_kept_s)
        await cleaning.clean(LOCAL_ENGINE, alive.lease)
        assert world.machine.pulled == {engine_ref(CHAT)}, "it was wanted again"
        await world.ask(service.stop_container, container_id)
        await cleaning.clean(LOCAL_ENGINE, alive.lease)
        await clock.advance(SETTINGS.unused_images_kept_s)
        await cleaning.clean(LOCAL_ENGINE, alive.lease)
        assert world.machine.pulled == set()


async def test_what_a_draft_goes_back_to_stays(world: World) -> None:
    engine, clock = WatchedEngine(world.machine), VirtualClock()
    image = world.machine.images["local/chat:latest"]
    world.machine.images = {**world.machine.images, CHAT: image, OTHER: image}
    world.machine.pulled |= {engine_ref(CHAT), engine_ref(OTHER)}
    await world.create()
    async with life(world, engine) as alive:
        await execute(
            world,
            "UPDATE containers SET trial_image = jsonb_build_object('ref', CAST(:one AS text)),"
            " fallback = jsonb_build_object('image', jsonb_build_object('ref', CAST(:other AS text)))",
            one=engine_ref(CHAT),
            other=engine_ref(OTHER),
        )
        cleaning = ImageCleaning(world.database, engines_of(engine), SETTINGS, clock)
        for _ in range(2):
            await cleaning.clean(LOCAL_ENGINE, alive.lease)
            await clock.advance(SETTINGS.unused_images_kept_s)
        assert world.machine.pulled == {engine_ref(CHAT), engine_ref(OTHER)}

"""Several gateways: who serves what, and who has let go of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from gateway_support import Container, eventually, run_container
from many_support import Gateway, World, make_world, new_gateway
from sqlalchemy import text

from moorage.gateway.repository import forget_gateway
from moorage.kit.database import Database


@pytest.fixture
async def gateways(database: Database, short_folder: Path) -> AsyncIterator[tuple[Gateway, Gateway]]:
    async with (
        new_gateway(short_folder / "a", database) as one,
        new_gateway(short_folder / "b", database) as two,
    ):
        yield one, two


@pytest.fixture
async def world(database: Database) -> World:
    return await make_world(database)


@pytest.mark.long
async def test_a_gateway_that_was_forgotten_too_early_reports_again(
    world: World, gateways: tuple[Gateway, Gateway], container: Container
) -> None:
    one, _ = gateways
    replica_id = await world.add_replica(container)

    async def held() -> bool:
        return one.id in await world.holders(replica_id)

    await eventually(held)
    async with world.database.transaction() as session:
        await forget_gateway(session, one.id)
    assert not await held()
    await eventually(held)
    # And it goes on reporting what changes.
    await world.move(replica_id, "draining")

    async def let_go() -> bool:
        return not await held()

    await eventually(let_go)


async def test_both_serve_and_a_replica_is_gone_when_both_have_let_go(
    world: World, gateways: tuple[Gateway, Gateway], container: Container
) -> None:
    one, two = gateways
    replica_id = await world.add_replica(container)

    async def held_by_both() -> bool:
        return await world.holders(replica_id) == {one.id: (False, 0), two.id: (False, 0)}

    await eventually(held_by_both)
    for gateway in gateways:
        assert await gateway.ask(world.container_id) == 200

    held = asyncio.create_task(two.ask(world.container_id, "/hold"))
    await eventually(lambda: container.waiting == 1)
    await world.move(replica_id, "draining")

    async def only_the_busy_one() -> bool:
        return await world.holders(replica_id) == {two.id: (True, 1)}

    await eventually(only_the_busy_one)
    for gateway in gateways:
        assert await gateway.ask(world.container_id) == 503
    container.release.set()
    assert await held == 200

    async def held_by_none() -> bool:
        return await world.holders(replica_id) == {}

    await eventually(held_by_none)


async def test_a_gateway_whose_agent_died_serves_on_and_keeps_what_it_has(
    world: World, gateways: tuple[Gateway, Gateway], container: Container
) -> None:
    one, two = gateways
    replica_id = await world.add_replica(container)

    async def held_by_both() -> bool:
        return len(await world.holders(replica_id)) == 2

    await eventually(held_by_both)
    await two.die()
    async with run_container() as successor:
        await world.move(replica_id, "stopped")
        new_id = await world.add_replica(successor)

        async def moved_on() -> bool:
            return set(await world.holders(new_id)) == {one.id}

        await eventually(moved_on)
        assert await one.ask(world.container_id) == 200
        assert len(successor.seen) == 1
        # The other still sends requests to the old one, and nobody else may have that port: its row says so.
        assert await two.ask(world.container_id) == 200
        assert len(container.seen) == 1
        assert set(await world.holders(replica_id)) == {two.id}


@pytest.mark.long
async def test_what_nobody_tells_is_found_by_the_next_comparison(
    world: World, gateways: tuple[Gateway, Gateway], container: Container
) -> None:
    """Also when the rows are again as they were at the comparison before: only that container was looked at since."""
    one, _ = gateways
    replica_id = await world.add_replica(container)

    async def held() -> bool:
        return one.id in await world.holders(replica_id)

    async def let_go() -> bool:
        return one.id not in await world.holders(replica_id)

    await eventually(held)
    await world.move(replica_id, "starting", tell=False)
    await eventually(let_go)
    assert await one.ask(world.container_id) == 503


@pytest.mark.long
async def test_the_only_container_of_its_bucket_is_deleted_just_after_it_was_looked_at(
    world: World, gateways: tuple[Gateway, Gateway], container: Container
) -> None:
    """Then no row is left that a comparison could find changed: what must be found is that there is none."""
    one, _ = gateways
    replica_id = await world.add_replica(container)

    async def answers(status: int) -> bool:
        return await one.ask(world.container_id) == status

    await eventually(lambda: answers(200))
    await world.move(replica_id, "stopped")
    await eventually(lambda: answers(503))
    async with world.database.transaction() as session:
        await session.execute(text("UPDATE containers SET deleted_at = now()"))
    await eventually(lambda: answers(404))

"""Where replicas go among machines that are lent: not alone where it is not known who stays, with different owners, and not soon again
where two were lost."""

from functools import partial

import pytest
from machines_support import (
    SECOND,
    UNREACHABLE,
    Fleet,
    change,
    leading,
    new_fleet,
    rounds,
    serving,
    silent_for,
)
from reconciler_support import KEYRING, SETTINGS
from sqlalchemy import text
from test_reconciler_drafts import draft

from moorage.containers.capacity_repository import engines_losing_replicas
from moorage.containers.drafts.service import apply_draft
from moorage.containers.states import Strategy
from moorage.engines.base import LOCAL_ENGINE
from moorage.kit.database import Database
from moorage.kit.errors import EngineError


@pytest.fixture
async def fleet(database: Database) -> Fleet:
    return await new_fleet(database)


async def lend(fleet: Fleet, engine: str, owner: str, *, on_probation: bool = False) -> None:
    said = f"owner = '{owner}', on_probation = {on_probation}"
    await change(fleet.world, f"UPDATE nodes SET {said} WHERE engine = '{engine}'")


async def test_a_machine_on_probation_never_has_the_only_one(fleet: Fleet) -> None:
    await lend(fleet, SECOND, "org_b", on_probation=True)
    async with leading(fleet) as alive:
        for _ in range(3):
            (alone,) = await serving(alive, await fleet.world.create(), 1)
            assert alone.engine == LOCAL_ENGINE
        container_id = await fleet.world.create(max_replicas=2)
        await serving(alive, container_id, 1)
        await change(fleet.world, f"UPDATE containers SET desired_replicas = 2 WHERE id = '{container_id}'")
        two = await serving(alive, container_id, 2)
        assert [(row.slot, row.engine) for row in sorted(two, key=lambda row: row.slot)] == [
            (0, LOCAL_ENGINE),
            (1, SECOND),
        ]


async def test_whoever_starts_with_several_spreads_at_once(fleet: Fleet) -> None:
    """The first where it is known who stays; beside it the others may be on probation, also in the pass that begins all three."""
    await lend(fleet, SECOND, "org_b", on_probation=True)
    async with leading(fleet) as alive:
        three = await serving(alive, await fleet.world.create(replicas=3), 3)
    by_slot = {row.slot: row.engine for row in three}
    assert by_slot[0] == LOCAL_ENGINE
    assert sorted(by_slot.values()) == sorted([LOCAL_ENGINE, LOCAL_ENGINE, SECOND])


async def test_it_waits_and_says_why(fleet: Fleet) -> None:
    await lend(fleet, SECOND, "org_b", on_probation=True)
    await change(fleet.world, f"UPDATE nodes SET cordoned_at = now() WHERE engine = '{LOCAL_ENGINE}'")
    async with leading(fleet) as alive:
        container_id = await fleet.world.create()
        await rounds(alive, container_id, 3)
        row = await fleet.world.container(container_id)
        assert (row.state, row.reason) == ("PENDING", "no_capacity")
        assert "do not take a container's only replica" in (row.message or "")
        await change(fleet.world, "UPDATE nodes SET on_probation = false")
        (placed,) = await serving(alive, container_id, 1)
        assert placed.engine == SECOND


async def test_a_machine_that_lost_two_is_avoided_while_others_have_room(fleet: Fleet) -> None:
    await lend(fleet, SECOND, "org_b")
    async with leading(fleet) as alive:
        container_id = await fleet.world.create(replicas=4)
        there = [row for row in await serving(alive, container_id, 4) if row.engine == SECOND]
        assert len(there) == 2
        fleet.second.cut_off()
        for row in there:
            fleet.world.failing[row.id] = UNREACHABLE
        await fleet.world.gateway_step()
        await silent_for(alive, SECOND, 21)
        await serving(alive, container_id, 4)
        async with fleet.world.database.reading() as session:
            assert await engines_losing_replicas(session) == {SECOND}
        fleet.second.come_back()
        await alive.reconciler._sweep._compare(SECOND, alive.lease)
        await alive.reconciler._pulse.beat(SECOND, alive.lease)
        other = await serving(alive, await fleet.world.create(replicas=2), 2)
        assert {row.engine for row in other} == {LOCAL_ENGINE}
        await change(fleet.world, f"UPDATE nodes SET cordoned_at = now() WHERE engine = '{LOCAL_ENGINE}'")
        (last,) = await serving(alive, await fleet.world.create(), 1)
        assert last.engine == SECOND, "rather there than nowhere"


@pytest.mark.parametrize(
    ("minutes_ago", "avoided"),
    [((5, 10), True), ((5,), False), ((50, 100), True), ((5, 70), False), ((61, 62), False)],
)
async def test_for_an_hour(fleet: Fleet, minutes_ago: tuple[int, ...], avoided: bool) -> None:
    container_id = await fleet.world.create()
    async with fleet.world.database.transaction() as session:
        for number, minutes in enumerate(minutes_ago):
            await session.execute(
                text(
                    "INSERT INTO replicas (id, container_id, slot, generation, instance_type, state, engine, node, gpu_device_ids,"
                    " reason, ended_badly, ended_at, port_released_at) VALUES (:id, :container, 0, 1, 'cpu-nano', 'removed',"
                    " :engine, 'second', '{}', 'node_lost', true, now() - :minutes * interval '1 minute', now())"
                ),
                {"id": f"rep_{number}", "container": container_id, "engine": SECOND, "minutes": minutes},
            )
        assert await engines_losing_replicas(session) == ({SECOND} if avoided else set())


async def test_an_image_is_not_fetched_by_a_stranger_to_wait_there(fleet: Fleet) -> None:
    """Of a container that is for the operator's machines, and finds no room on them."""
    await lend(fleet, SECOND, "org_b")
    await change(fleet.world, f"UPDATE nodes SET infrastructure = 'community' WHERE engine = '{SECOND}'")
    await change(fleet.world, f"UPDATE nodes SET memory_bytes = 1 WHERE engine = '{LOCAL_ENGINE}'")
    async with leading(fleet) as alive:
        placing = alive.reconciler._placing
        container_id = await fleet.world.create()
        loaded = await alive.reconciler._load(container_id)
        assert loaded is not None
        assert await placing.first_engine(loaded, await placing.room(loaded)) == LOCAL_ENGINE
        await change(fleet.world, f"UPDATE nodes SET ready = false WHERE engine = '{LOCAL_ENGINE}'")
        with pytest.raises(EngineError, match="No machine answers"):
            await placing.first_engine(loaded, await placing.room(loaded))


@pytest.mark.parametrize("strategy", [Strategy.ROLLING, Strategy.CANARY])
async def test_a_new_version_is_not_alone_there_either(fleet: Fleet, strategy: Strategy) -> None:
    """Beside what serves it is not the only one; when that goes, it is."""
    world = fleet.world
    await lend(fleet, SECOND, "org_b", on_probation=True)
    async with leading(fleet) as alive:
        container_id = await world.create()
        await serving(alive, container_id, 1)
        await draft(world, container_id, env={"WORD": "new"})
        share = 10 if strategy is Strategy.CANARY else None
        apply = partial(apply_draft, keyring=KEYRING, settings=SETTINGS, strategy=strategy, share=share)
        await world.ask(apply, container_id)
        rows = await serving(alive, container_id, 2)
        assert {row.engine for row in rows} == {LOCAL_ENGINE}


async def test_nobody_is_there_who_did_not_say_so(fleet: Fleet) -> None:
    """Of a container from before anybody was asked, whose type is one of strangers' machines."""
    world = fleet.world
    await lend(fleet, SECOND, "org_b")
    await change(world, f"UPDATE nodes SET infrastructure = 'community' WHERE engine = '{SECOND}'")
    async with leading(fleet) as alive:
        container_id = await world.create()
        await change(world, "UPDATE instance_types SET infrastructure = 'community' WHERE name = 'cpu-nano'")
        await rounds(alive, container_id, 3)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("PENDING", "no_capacity")
        accepted = """UPDATE containers SET settings = settings || '{"accept_exposure": true}'"""
        await change(world, f"{accepted}, reconcile_at = now()")
        (placed,) = await serving(alive, container_id, 1)
        assert placed.engine == SECOND

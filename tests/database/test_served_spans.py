"""What gateways saw owned machines serve: written with their reports, and never for a time in which nobody looked."""

from datetime import timedelta

import pytest
from reconciler_support import World, new_world
from sqlalchemy import text

from moorage.gateway.liveness import Health
from moorage.gateway.repository import RouteReport, forget_gateway, note_seen, register_gateway, report
from moorage.gateway.served_repository import KEPT, purge_spans
from moorage.kit.database import Database
from moorage.kit.ids import GatewayId
from moorage.machines.ownership import owner_of

OWNED, OWN = "mch_owned", "mch_own"
HERE, THERE = GatewayId("gtw_here"), GatewayId("gtw_there")
SERVES = RouteReport(draining=False, in_flight=0)
FAILS = RouteReport(draining=False, in_flight=0, health=Health("timeout", None, 0))
DRAINS = RouteReport(draining=True, in_flight=1)


@pytest.fixture
async def world(database: Database) -> World:
    world = await new_world(database)
    container_id = await world.create()
    await change(world, f"UPDATE containers SET reconcile_at = NULL WHERE id = '{container_id}'")
    owner = f"'{world.project.organization_id}'"
    for machine, kind, whose in ((OWNED, "community", owner), (OWN, "operator", "NULL")):
        await change(
            world,
            "INSERT INTO machines (id, infrastructure, state, created_by, owner_organization_id) "
            f"VALUES ('{machine}', '{kind}', 'joining', 'usr', {whose})",
        )
    for replica, slot, engine in (("rep_owned", 0, OWNED), ("rep_own", 1, OWN)):
        await change(
            world,
            "INSERT INTO replicas (id, container_id, slot, generation, instance_type, state, engine, node, gpu_device_ids, "
            f"ended_badly) VALUES ('{replica}', '{container_id}', {slot}, 1, 'cpu-nano', 'routed', '{engine}', 'n', '{{}}', false)",
        )
    async with database.transaction() as session:
        for gateway in (HERE, THERE):
            await register_gateway(session, gateway)
    return world


async def change(world: World, statement: str) -> None:
    async with world.database.transaction() as session:
        await session.execute(text(statement))


async def say(world: World, gateway: GatewayId, said: RouteReport | None) -> None:
    """One report of a gateway, about both replicas."""
    held = {} if said is None else {"rep_owned": said, "rep_own": said}
    async with world.database.transaction() as session:
        assert await note_seen(session, gateway, held)
        await report(session, gateway, held)


async def spans(world: World) -> list[tuple[str, str, bool]]:
    """(gateway, replica, whether it is open), as they began."""
    async with world.database.transaction() as session:
        rows = await session.execute(
            text(
                "SELECT gateway_id, replica_id, ended_at IS NULL FROM served_spans ORDER BY began_at, gateway_id"
            )
        )
        return [tuple(row) for row in rows]


async def lengths(world: World) -> list[timedelta]:
    async with world.database.transaction() as session:
        rows = await session.execute(text("SELECT ended_at - began_at FROM served_spans ORDER BY began_at"))
        return list(rows.scalars())


async def test_only_owned_machines_have_spans(world: World) -> None:
    await say(world, HERE, SERVES)
    assert await spans(world) == [(HERE, "rep_owned", True)]
    async with world.database.transaction() as session:
        assert await owner_of(session, OWNED) == world.project.organization_id
        assert await owner_of(session, OWN) is None
        assert await owner_of(session, "local") is None


@pytest.mark.parametrize("end", [FAILS, DRAINS, None])
async def test_a_span_ends_when_it_fails_drains_or_goes(world: World, end: RouteReport | None) -> None:
    await say(world, HERE, SERVES)
    await say(world, HERE, SERVES)
    await say(world, HERE, end)
    assert await spans(world) == [(HERE, "rep_owned", False)]
    await say(world, HERE, SERVES)
    assert await spans(world) == [(HERE, "rep_owned", False), (HERE, "rep_owned", True)]


async def test_each_gateway_speaks_for_itself(world: World) -> None:
    await say(world, HERE, SERVES)
    await say(world, THERE, SERVES)
    await say(world, HERE, FAILS)
    assert sorted(await spans(world)) == [(HERE, "rep_owned", False), (THERE, "rep_owned", True)]


@pytest.mark.parametrize("silence", ["1 minute", "2 hours", "-2 hours"])
async def test_time_in_which_a_gateway_was_silent_is_not_served(world: World, silence: str) -> None:
    """Neither a gateway that was away nor a clock that jumped makes time that counts."""
    await say(world, HERE, SERVES)
    await change(world, f"UPDATE gateways SET seen_at = seen_at - interval '{silence}' WHERE id = '{HERE}'")
    await change(world, f"UPDATE served_spans SET began_at = began_at - interval '{silence}'")
    await say(world, HERE, SERVES)
    assert sorted(open_ for _, _, open_ in await spans(world)) == [False, True]
    assert sum((one for one in await lengths(world) if one is not None), timedelta()) < timedelta(seconds=10)


async def test_a_short_silence_is_none(world: World) -> None:
    await say(world, HERE, SERVES)
    await change(world, "UPDATE gateways SET seen_at = seen_at - interval '5 s'")
    await say(world, HERE, SERVES)
    assert await spans(world) == [(HERE, "rep_owned", True)]


async def test_a_forgotten_gateways_spans_end_where_it_was_seen(world: World) -> None:
    await say(world, HERE, SERVES)
    await change(world, "UPDATE served_spans SET began_at = began_at - interval '1 h'")
    await change(world, "UPDATE gateways SET seen_at = seen_at - interval '30 minutes'")
    async with world.database.transaction() as session:
        await forget_gateway(session, HERE)
    (length,) = await lengths(world)
    assert abs(length - timedelta(minutes=30)) < timedelta(seconds=10)


async def test_old_spans_go(world: World) -> None:
    await say(world, HERE, SERVES)
    await say(world, HERE, FAILS)
    async with world.database.transaction() as session:
        assert await purge_spans(session) == 0
    old = f"interval '{KEPT.days + 1} days'"
    await change(world, f"UPDATE served_spans SET began_at = began_at - {old}, ended_at = ended_at - {old}")
    async with world.database.transaction() as session:
        assert await purge_spans(session) == 1

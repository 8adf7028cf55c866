"""A slot has one hour that something may follow, whoever comes between: renewals that were away, a renewal in the middle of
a pass, a stop that overtakes one, a container that cannot be renewed."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import pytest
from reconciler_support import KEYRING, SETTINGS, Life, WatchedEngine, World, life, new_world
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from test_reconciler_drafts import draft
from test_reconciler_rolling import watched_for_long
from test_renewals import (
    END_SOON,
    PRICE,
    balance,
    change,
    charged,
    deploy,
    leave_credit,
    query,
    renew_all,
    rounds,
    set_available,
)

from moorage.billing.renewals.reconciler import RenewalsReconciler
from moorage.containers import service
from moorage.entrypoints.migrate import migrate
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import MoorageError
from moorage.ledger.check_repository import find_slots_paid_wrongly
from moorage.reconcile.lease import LeaseKeeper

RENEWALS_WERE_AWAY = (
    "UPDATE hours SET expires_at = now() - interval '5 minutes', due_at = now() - interval '6 minutes'"
    " WHERE due_at IS NOT NULL"
)


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


async def live_hours(world: World) -> list[tuple[object, ...]]:
    """(slot, state) of each."""
    return await query(
        world, "SELECT slot, state FROM hours WHERE state = 'held' OR due_at IS NOT NULL ORDER BY slot"
    )


async def charged_once_an_hour(world: World, hours: int) -> None:
    """So many so far, and one more with each renewal."""
    await renew_all(world)
    assert await charged(world) == hours * PRICE
    for number in (1, 2):
        await change(world, END_SOON)
        await renew_all(world)
        assert await charged(world) == (hours + number) * PRICE
    assert await live_hours(world) == [(0, "paid")]
    assert (await balance(world)).held_microusd == 0


async def test_a_start_after_an_hour_that_nobody_renewed(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await deploy(world, controller)
        await world.ask(service.stop_container, container_id)
        await rounds(world, controller, container_id, 8)
        await change(world, RENEWALS_WERE_AWAY)
        await world.ask(service.start_container, container_id)
        await rounds(world, controller, container_id)
        await charged_once_an_hour(world, 2)


async def test_a_restart_after_an_hour_that_nobody_renewed(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await deploy(world, controller)
        await change(world, RENEWALS_WERE_AWAY)
        await world.ask(service.restart_container, container_id)
        await rounds(world, controller, container_id, 8)
        assert [one.generation for one in await world.replicas(container_id, "routed")] == [2]
        await charged_once_an_hour(world, 2)


async def test_a_crash_after_an_hour_that_nobody_renewed(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await deploy(world, controller)
        await change(world, RENEWALS_WERE_AWAY)
        world.machine.end((await world.replicas(container_id, "routed"))[0].id)
        await controller.round(container_id)
        await change(
            world, "UPDATE replicas SET ended_at = ended_at - interval '2 minutes' WHERE ended_badly"
        )
        await rounds(world, controller, container_id)
        assert len(await world.replicas(container_id, "routed")) == 1
        await charged_once_an_hour(world, 2)


async def test_a_restart_that_fails_in_that_gap_leaves_what_serves_paid(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await deploy(world, controller)
        await change(world, RENEWALS_WERE_AWAY)
        await change(
            world, 'UPDATE containers SET settings = settings || \'{"image": "local/crash:latest"}\''
        )
        await world.ask(service.restart_container, container_id)
        await rounds(world, controller, container_id, 8)
        row = await world.container(container_id)
        assert (row.state, row.resumed_generation) == ("RUNNING", row.generation), row.message
        await charged_once_an_hour(world, 2)


async def test_the_database_refuses_a_second_live_hour(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        await deploy(world, controller)
    twin = (
        "INSERT INTO hours (id, organization_id, project_id, container_id, instance_type, slot, price_microusd, state)"
        " SELECT 'hour_twin', organization_id, project_id, container_id, instance_type, slot, price_microusd, 'held'"
        " FROM hours"
    )
    with pytest.raises(IntegrityError, match="uq_hours_live_slot"):
        await change(world, twin)


def once(name: str, do: Callable[[], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
    """Between a pass's reading and its commit, when it asks the engine this for the first time."""
    done = False

    async def hook(called: str) -> None:
        nonlocal done
        if called == name and not done:
            done = True
            await do()

    return hook


async def comes_up_late(world: World, controller: Life) -> str:
    """A replica starts in a slot whose hour ends before it answers."""
    container_id = await deploy(world, controller)
    world.machine.health_status = 503
    await world.ask(service.restart_container, container_id)
    await rounds(world, controller, container_id, 2)
    world.machine.end((await world.replicas(container_id, "routed"))[0].id)
    await controller.round(container_id)
    await change(world, END_SOON)
    world.machine.health_status = 200
    return container_id


async def about_to_answer(world: World, controller: Life) -> str:
    """A first replica that starts, and is ready when a pass looks next."""
    world.machine.health_status = 503
    container_id = await world.create()
    await rounds(world, controller, container_id, 3)
    assert len(await world.replicas(container_id, "starting")) == 1
    world.machine.health_status = 200
    return container_id


async def test_a_renewal_in_the_middle_of_a_pass_is_bought(world: World) -> None:
    engine = WatchedEngine(world.machine)
    async with life(world, engine) as controller:
        container_id = await comes_up_late(world, controller)
        engine.before = once("inspect", lambda: renew_all(world))
        await rounds(world, controller, container_id)
        assert len(await world.replicas(container_id, "routed")) == 1
        ends = await query(world, "SELECT expires_at FROM hours ORDER BY expires_at")
        assert ends[1][0] - ends[0][0] == timedelta(hours=1), "no second is paid twice"  # type: ignore[operator]
        await charged_once_an_hour(world, 2)


@pytest.mark.long
async def test_an_hour_that_ends_in_the_middle_of_a_pass_is_replaced(world: World) -> None:
    async def end_the_hour() -> None:
        await change(world, RENEWALS_WERE_AWAY)
        await renew_all(world)

    engine = WatchedEngine(world.machine)
    async with life(world, engine) as controller:
        container_id = await deploy(world, controller)
        await world.ask(service.stop_container, container_id)
        await rounds(world, controller, container_id, 8)
        await world.ask(service.start_container, container_id)
        engine.before = once("ensure_image", end_the_hour)
        await rounds(world, controller, container_id)
        assert len(await world.replicas(container_id, "routed")) == 1
        await charged_once_an_hour(world, 2)


async def test_what_answers_after_its_credit_ended_never_serves(world: World) -> None:
    engine = WatchedEngine(world.machine)

    async def take_the_money() -> None:
        """Its hold is gone, and so is the credit; nobody told the pass."""
        await change(world, "UPDATE hours SET state = 'released' WHERE state = 'held'")
        await change(world, "UPDATE credit_accounts SET available_microusd = 0, held_microusd = 0")

    async with life(world, engine) as controller:
        container_id = await about_to_answer(world, controller)
        engine.before = once("inspect", take_the_money)
        await rounds(world, controller, container_id, 8)
        assert await query(world, "SELECT 1 FROM replicas WHERE ready_at IS NOT NULL") == []
        assert await charged(world) == 0
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("PENDING", "insufficient_credit")


async def test_a_stop_that_overtakes_a_pass_is_not_charged(world: World) -> None:
    engine = WatchedEngine(world.machine)
    async with life(world, engine) as controller:
        container_id = await about_to_answer(world, controller)
        engine.before = once("inspect", lambda: world.ask(service.stop_container, container_id))
        await rounds(world, controller, container_id, 8)
        assert await charged(world) == 0
        assert (await balance(world)).held_microusd == 0


async def test_what_serves_without_an_hour_gets_one_or_goes(world: World) -> None:
    """However that came about: each pass looks."""
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await deploy(world, controller)
        await change(world, "UPDATE hours SET due_at = NULL")
        await controller.round(container_id)
        assert await live_hours(world) == [(0, "paid")]
        assert await charged(world) == 2 * PRICE
        await change(world, "UPDATE hours SET due_at = NULL")
        await set_available(world, 0)
        await rounds(world, controller, container_id, 8)
        assert await world.replicas(container_id, "ready", "routed") == []


TWIN = (
    "DROP INDEX uq_hours_live_slot;"
    " INSERT INTO hours SELECT 'hour_twin', organization_id, project_id, container_id, instance_type, slot,"
    " price_microusd, state, held_at, bought_at, expires_at, NULL, due_at FROM hours"
)


@pytest.mark.parametrize(
    ("damage", "rule", "difference"),
    [
        ("UPDATE hours SET due_at = NULL", "a slot that serves has one live hour", -PRICE),
        (
            "UPDATE hours SET state = 'held', bought_at = NULL, expires_at = NULL, due_at = NULL",
            "a slot that serves has one live hour",
            -PRICE,
        ),
        (
            "UPDATE hours SET state = 'held', bought_at = NULL, expires_at = NULL, due_at = NULL, slot = 1",
            "somebody waits for what is held",
            PRICE,
        ),
        (
            TWIN,
            "a slot that serves has one live hour",
            PRICE,
        ),
        (
            "UPDATE hours SET paused_at = now()",
            "the hour of a slot that serves does not pause",
            -PRICE,
        ),
    ],
    ids=["none", "never bought", "held for nobody", "two", "paused"],
)
async def test_the_check_sees(world: World, damage: str, rule: str, difference: int) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        await deploy(world, controller)
    async with world.database.transaction() as session:
        await session.execute(text("UPDATE containers SET reconcile_at = NULL"))
        assert await find_slots_paid_wrongly(session) == []
        for statement in damage.split(";"):
            await session.execute(text(statement))
        found = await find_slots_paid_wrongly(session)
    assert (rule, difference) in [(one.rule, one.difference_microusd) for one in found], found


async def test_one_that_cannot_be_renewed_stops_no_other(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        oldest, younger = await deploy(world, controller), await deploy(world, controller)
    await change(
        world,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$",
    )
    await change(
        world,
        f"CREATE TRIGGER refuse BEFORE INSERT ON hours FOR EACH ROW WHEN (NEW.container_id = '{oldest}')"
        " EXECUTE FUNCTION refuse()",
    )
    await change(world, END_SOON)
    lease = await LeaseKeeper(world.database, "renewals", "test", system_clock).acquire()
    assert lease is not None
    renewals = RenewalsReconciler(world.database, KEYRING, SETTINGS, system_clock)
    (key,) = (await renewals.due(10)).keys
    with pytest.raises(MoorageError, match=f"1 of 2 containers were not renewed; {oldest}: .*not today"):
        await renewals.reconcile(key, lease)
    renewed = await query(world, "SELECT container_id FROM hours WHERE renews IS NOT NULL")
    assert renewed == [(younger,)]
    await change(world, "DROP TRIGGER refuse ON hours")
    await renew_all(world)
    assert await charged(world) == 4 * PRICE


class Overtaken(Database):
    """Somebody asks for a pass over every container, each time that one is about to be written."""

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        async with super().transaction() as session:
            await session.execute(text("UPDATE containers SET changes = changes + 1, reconcile_at = now()"))
        async with super().transaction() as session:
            yield session


async def test_a_deleted_container_that_waited_leaves_nothing_held(world: World, database_dsn: str) -> None:
    overtaken = Overtaken(database_dsn, pool_size=2)
    try:
        async with life(world, WatchedEngine(world.machine), overtaken) as controller:
            container_id = await world.create()
            assert (await balance(world)).held_microusd == PRICE
            await world.ask(service.delete_container, container_id)
            await rounds(world, controller, container_id, 3)
        assert (await world.container(container_id)).deleted_at is not None
        assert (await balance(world)).held_microusd == 0
    finally:
        await overtaken.close()


async def test_the_migration_leaves_each_slot_one_hour(world: World, database_dsn: str) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        await deploy(world, controller)
        await world.create()
    await migrate(database_dsn, "0029")
    columns = "organization_id, project_id, container_id, instance_type, slot, price_microusd"
    times = "bought_at, expires_at, due_at"
    await change(
        world,
        f"INSERT INTO hours (id, {columns}, state, {times}) SELECT 'hour_later', {columns}, state, bought_at,"
        " expires_at + interval '1 minute', due_at FROM hours WHERE state = 'paid'",
    )
    await change(
        world,
        f"INSERT INTO hours (id, {columns}, state) SELECT 'hour_hold', {columns}, 'held' FROM hours"
        " WHERE id = 'hour_later'",
    )
    held = f"UPDATE credit_accounts SET available_microusd = available_microusd - {PRICE}, held_microusd = {2 * PRICE}"
    await change(world, held)
    await migrate(database_dsn)
    assert await query(world, "SELECT id FROM hours WHERE due_at IS NOT NULL") == [("hour_later",)]
    assert await query(world, "SELECT state FROM hours WHERE id = 'hour_hold'") == [("released",)]
    assert await query(world, "SELECT held_microusd FROM credit_accounts") == [(PRICE,)], (
        "what another waits for"
    )


async def test_what_is_paid_serves_on_beside_a_new_type_that_cannot_be(world: World) -> None:
    """Of two versions in one slot, each with an hour of its own type, the new one's is gone and nobody can pay another."""
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await deploy(world, controller)
        (old,) = await world.replicas(container_id, "routed")
        resources = {
            "mode": "autoscaling",
            "instance_type": "cpu-small",
            "min_replicas": 1,
            "max_replicas": 1,
        }
        await draft(world, container_id, resources=resources)
        await world.ask(watched_for_long, container_id)
        await rounds(world, controller, container_id)
        assert len(await world.replicas(container_id, "routed")) == 2
        await change(
            world,
            "UPDATE hours SET expires_at = now() - interval '1 s', due_at = NULL WHERE instance_type = 'cpu-small'",
        )
        await leave_credit(world, 1)
        await rounds(world, controller, container_id)
        assert [one.id for one in await world.replicas(container_id, "routed")] == [old.id]

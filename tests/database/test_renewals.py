"""Hours that end: renewed once whatever dies, oldest container first, and drained in time where the credit ends.

The controller is killed at every statement of the billing pass; what was charged is compared with an oracle that only
knows prices, credit and the order of containers.
"""

from asyncio import CancelledError
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from reconciler_support import (
    KEYRING,
    SETTINGS,
    Doom,
    DoomedDatabase,
    Life,
    WatchedEngine,
    World,
    life,
    new_world,
)
from sqlalchemy import text

from moorage.billing.renewals.reconciler import PAUSE_AFTER_FAILURE_S, RenewalsReconciler
from moorage.billing.views.repository import Moved, revenue_by_day
from moorage.catalog.defaults import default_catalogue
from moorage.containers import service, suspension
from moorage.identity.users.repository import create_user
from moorage.kit.clock import VirtualClock, system_clock
from moorage.kit.database import Database, database_now
from moorage.kit.errors import InsufficientCreditError, UnavailableError
from moorage.kit.pagination import PageRequest
from moorage.ledger.accounts import CARD, INITIAL_CREDIT_MICROUSD, Kind, credit_of
from moorage.ledger.check_repository import find_differences, find_slots_paid_wrongly
from moorage.ledger.repository import Balance, Posting, balance_of, post
from moorage.notifications.repository import list_outbox
from moorage.organizations.models import MemberRow
from moorage.reconcile.lease import LeaseKeeper

PRICE = next(one.price_per_hour_microusd for one in default_catalogue() if one.name == "cpu-nano")
MOMENT_LATER = "now() - interval '1 second'"


@pytest.fixture
async def world(database: Database) -> World:
    return await new_world(database)


@pytest.fixture
async def doomed(database_dsn: str) -> AsyncIterator[DoomedDatabase]:
    opened = DoomedDatabase(database_dsn)
    yield opened
    await opened.close()


async def charged(world: World) -> int:
    rows = await query(
        world, "SELECT coalesce(sum(amount_microusd), 0) FROM ledger_entries WHERE account = 'usage'"
    )
    return int(rows[0][0])


async def query(world: World, statement: str) -> list[tuple[object, ...]]:
    async with world.database.transaction() as session:
        return [tuple(row) for row in await session.execute(text(statement))]


async def change(world: World, statement: str) -> None:
    async with world.database.transaction() as session:
        await session.execute(text(statement))


async def balance(world: World) -> Balance:
    async with world.database.transaction() as session:
        assert await find_differences(session) == []
        assert await find_slots_paid_wrongly(session) == []
        return await balance_of(session, world.project.organization_id)


async def leave_credit(world: World, microusd: int) -> None:
    """Everything else goes back to the card."""
    async with world.database.transaction() as session:
        organization_id = world.project.organization_id
        available = (await balance_of(session, organization_id)).available_microusd
        key = f"refund:{available}:{microusd}"
        source = credit_of(organization_id)
        await post(session, Posting(key, Kind.REFUND, organization_id, source, CARD, available - microusd))


async def deploy(world: World, controller: Life, replicas: int = 1) -> str:
    container_id = await world.create(replicas=replicas)
    await rounds(world, controller, container_id)
    assert (await world.container(container_id)).state == "RUNNING"
    return container_id


async def rounds(world: World, controller: Life, container_id: str, number: int = 6) -> None:
    for _ in range(number):
        await controller.round(container_id)


async def renew_all(world: World, database: Database | None = None) -> None:
    """As the driver does it: ask what is due until nothing is."""
    await change(world, "UPDATE leases SET expires_at = now() - interval '1 second' WHERE name = 'renewals'")
    lease = await LeaseKeeper(world.database, "renewals", "test", system_clock).acquire()
    assert lease is not None
    reconciler = RenewalsReconciler(database or world.database, KEYRING, SETTINGS, system_clock)
    for _ in range(5):
        due = await reconciler.due(10)
        if not due.keys:
            return
        for key in due.keys:
            await reconciler.reconcile(key, lease)
    raise AssertionError("the same hours stay due")


END_SOON = f"UPDATE hours SET due_at = {MOMENT_LATER} WHERE state = 'paid' AND due_at IS NOT NULL"


async def test_an_hour_is_bought_when_ready_and_shared_by_restarts(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await world.create(replicas=2)
        assert await balance(world) == Balance(INITIAL_CREDIT_MICROUSD - 2 * PRICE, 2 * PRICE), "held"
        assert await charged(world) == 0
        await rounds(world, controller, container_id)
        assert await charged(world) == 2 * PRICE
        async with world.database.transaction() as session:
            today = (await database_now(session)).date()
            ((_, moved),) = await revenue_by_day(session, today - timedelta(days=1), today)
        assert moved["usage"] == Moved(times=2, amount_microusd=2 * PRICE)
        for _ in range(3):
            await world.ask(service.restart_container, container_id)
            await rounds(world, controller, container_id, 8)
        world.machine.end((await world.replicas(container_id, "routed"))[0].id)
        await change(
            world, "UPDATE replicas SET ended_at = ended_at - interval '2 minutes' WHERE ended_badly"
        )
        await rounds(world, controller, container_id)
        await world.ask(service.stop_container, container_id)
        await rounds(world, controller, container_id, 8)
        await world.ask(service.start_container, container_id)
        await rounds(world, controller, container_id)
        assert len(await world.replicas(container_id, "routed")) == 2
        assert await charged(world) == 2 * PRICE, (
            "restarts, a crash, a stop and a start within the hour are free"
        )
        assert await balance(world) == Balance(INITIAL_CREDIT_MICROUSD - 2 * PRICE, 0)


async def test_what_never_became_ready_costs_nothing(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await world.create("local/crash:latest", replicas=2)
        await rounds(world, controller, container_id)
        assert (await world.container(container_id)).state == "FAILED"
        waiting = await world.create("local/deaf:latest")
        await rounds(world, controller, waiting, 2)
        assert (await balance(world)).held_microusd == PRICE
        await world.ask(service.delete_container, waiting)
        await rounds(world, controller, waiting)
        assert await balance(world) == Balance(INITIAL_CREDIT_MICROUSD, 0)


async def test_a_deployment_that_is_too_dear_is_refused_as_a_whole(world: World) -> None:
    await leave_credit(world, 2 * PRICE - 1)
    with pytest.raises(InsufficientCreditError) as refused:
        await world.create(replicas=2)
    assert refused.value.missing_microusd == 1
    assert await query(world, "SELECT 1 FROM containers") == []
    assert await balance(world) == Balance(2 * PRICE - 1, 0)


@dataclass(frozen=True)
class Case:
    replicas: tuple[int, ...]
    """Of each container, oldest first."""
    credit_hours: int

    def expected_hours(self) -> int:
        """Oldest first, slot by slot, and nothing below zero. A container that gets less than all of its hours
        stops, but what it had bought in this pass is bought."""
        return min(sum(self.replicas), self.credit_hours)

    def expected_running(self) -> list[bool]:
        paid, running = self.credit_hours, []
        for replicas in self.replicas:
            running.append(paid >= replicas)
            paid = max(paid - replicas, 0)
        return running


@pytest.mark.long
@pytest.mark.parametrize("case", [Case((2, 1), 100), Case((1, 2), 2)], ids=["enough", "for some"])
async def test_killed_at_every_statement_of_the_billing_pass(
    world: World, doomed: DoomedDatabase, case: Case
) -> None:
    points = 0
    for at in range(1, 200):
        await change(world, "UPDATE credit_accounts SET available_microusd = 100000000")
        async with life(world, WatchedEngine(world.machine)) as controller:
            containers = [await deploy(world, controller, replicas) for replicas in case.replicas]
        await set_available(world, case.credit_hours * PRICE)
        before = await charged(world)
        await change(world, END_SOON)
        doomed.doom = Doom(at)
        struck = await strike(world, doomed)
        await renew_all(world)
        assert await charged(world) - before == case.expected_hours() * PRICE
        assert await query(world, "SELECT sum(amount_microusd) FROM ledger_entries") == [(0,)]
        rows = [await world.container(one) for one in containers]
        assert [row.desired_state == "running" for row in rows] == case.expected_running()
        available = await query(world, "SELECT available_microusd, held_microusd FROM credit_accounts")
        assert available == [((case.credit_hours - case.expected_hours()) * PRICE, 0)]
        for table in ("replica_routes", "replicas", "containers"):
            await change(world, f"DELETE FROM {table}")
        await change(world, "UPDATE hours SET due_at = NULL")
        points += struck
        if not struck:
            break
    assert points >= 8
    print(f"\n{points} crash points, each hour charged once")


async def strike(world: World, doomed: DoomedDatabase) -> bool:
    """Whether the process died before it was done."""
    try:
        await renew_all(world, doomed)
    except CancelledError:
        if not doomed.doom.dead:
            raise
    return doomed.doom.dead


async def set_available(world: World, microusd: int) -> None:
    await change(world, f"UPDATE credit_accounts SET available_microusd = {microusd}")


async def test_credit_that_runs_out_drains_stops_and_mails(world: World) -> None:
    async with world.database.transaction() as session:
        user, _ = await create_user(session, "ada@example.com")
        session.add(MemberRow(organization_id=world.project.organization_id, user_id=user.id, role="admin"))
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await deploy(world, controller, 2)
        await leave_credit(world, PRICE)
        await change(world, END_SOON)
        await renew_all(world)
        row = await world.container(container_id)
        assert (row.desired_state, row.state, row.reason) == ("stopped", "STOPPING", "stopped_no_credit")
        await rounds(world, controller, container_id, 8)
        row = await world.container(container_id)
        assert (row.state, row.reason) == ("STOPPED", "stopped_no_credit")
        assert "credit ran out" in (row.message or "")
        assert await world.nothing_left(container_id)
        assert await balance(world) == Balance(0, 0)
        async with world.database.transaction() as session:
            (mail,) = await list_outbox(session, KEYRING, PageRequest(10, None))
        assert (mail.to, "credit has run out" in mail.subject) == ("ada@example.com", True)
        with pytest.raises(InsufficientCreditError):
            await world.ask(service.start_container, container_id)


async def test_above_its_minimum_only_the_unpaid_slot_goes_and_it_comes_back_with_credit(
    world: World,
) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await deploy(world, controller, 1)
        await change(world, "UPDATE containers SET desired_replicas = 3")
        await rounds(world, controller, container_id)
        assert await charged(world) == 3 * PRICE
        await leave_credit(world, 2 * PRICE)
        await change(world, END_SOON)
        await renew_all(world)
        await rounds(world, controller, container_id, 8)
        row = await world.container(container_id)
        assert (row.desired_state, row.state) == ("running", "RUNNING")
        assert [one.slot for one in await world.replicas(container_id, "routed")] == [0, 1]
        assert await balance(world) == Balance(0, 0)
        await set_available(world, PRICE)
        await rounds(world, controller, container_id)
        assert len(await world.replicas(container_id, "routed")) == 3
        assert await query(world, "SELECT available_microusd, held_microusd FROM credit_accounts") == [(0, 0)]


async def test_nothing_is_bought_once_a_stop_is_decided_or_after_a_scale_down(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        stopping, shrinking = await deploy(world, controller), await deploy(world, controller)
        before = await charged(world)
        await world.ask(service.stop_container, stopping)
        await change(world, f"UPDATE containers SET desired_replicas = 1 WHERE id = '{shrinking}'")
        await change(world, f"UPDATE hours SET slot = 1 WHERE container_id = '{shrinking}'")
        await change(world, END_SOON)
        await renew_all(world)
        assert await charged(world) == before
        assert (
            await query(world, "SELECT 1 FROM hours WHERE due_at IS NOT NULL AND due_at < expires_at") == []
        )


async def test_a_suspension_buys_nothing_and_leaves_what_is_paid(world: World) -> None:
    """Whatever ran runs again after it, within the hour for nothing; what the credit had stopped does not."""
    organization_id = world.project.organization_id
    async with life(world, WatchedEngine(world.machine)) as controller:
        unpaid = await deploy(world, controller)
        await leave_credit(world, 0)
        await change(world, END_SOON)
        await renew_all(world)
        assert (await world.container(unpaid)).stop_reason == "stopped_no_credit"
        await rounds(world, controller, unpaid, 8)
        await set_available(world, 10 * PRICE)
        runs = await deploy(world, controller)
        before = await charged(world)
        async with world.database.transaction() as session:
            assert await suspension.suspend(
                session, organization_id, "system", "A card payment was disputed."
            )
        await change(world, END_SOON)
        await renew_all(world)
        for container_id in (runs, unpaid):
            await rounds(world, controller, container_id, 8)
        row = await world.container(runs)
        assert (row.desired_state, row.state, row.reason) == ("running", "STOPPED", "suspended")
        async with world.database.transaction() as session:
            assert await suspension.resume(session, organization_id, "usr_operator")
        for container_id in (runs, unpaid):
            await rounds(world, controller, container_id, 8)
        assert (await world.container(runs)).state == "RUNNING"
        row = await world.container(unpaid)
        assert (row.state, row.reason) == ("STOPPED", "stopped_no_credit")
        assert await charged(world) == before, "the hour that was paid before is used on"


async def test_time_that_nobody_accounted_for_is_not_charged(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        await deploy(world, controller)
        await change(
            world, f"UPDATE hours SET expires_at = now() - interval '5 hours', due_at = {MOMENT_LATER}"
        )
        await renew_all(world)
        assert await charged(world) == 2 * PRICE
        (row,) = await query(world, "SELECT expires_at - now() FROM hours WHERE renews IS NOT NULL")
        assert timedelta(minutes=59) < row[0] <= timedelta(hours=1)  # type: ignore[operator]


async def test_a_replica_that_comes_up_late_is_held_for_and_bought_once_ready(world: World) -> None:
    async with life(world, WatchedEngine(world.machine)) as controller:
        container_id = await deploy(world, controller)
        world.machine.health_status = 503
        await world.ask(service.restart_container, container_id)
        await rounds(world, controller, container_id, 2)
        world.machine.end((await world.replicas(container_id, "routed"))[0].id)
        await controller.round(container_id)
        await change(world, END_SOON)
        await renew_all(world)
        assert (await charged(world), (await balance(world)).held_microusd) == (PRICE, PRICE)
        world.machine.health_status = 200
        await rounds(world, controller, container_id)
        assert (await charged(world), (await balance(world)).held_microusd) == (2 * PRICE, 0)


async def test_a_clock_that_jumps_pauses_purchases(world: World) -> None:
    reconciler = RenewalsReconciler(world.database, KEYRING, SETTINGS, system_clock)
    await reconciler.due(10)
    jumps = reconciler._jumps
    assert jumps._times is not None
    jumps._times = (jumps._times[0] - timedelta(minutes=6), jumps._times[1])
    for _ in range(2):
        with pytest.raises(UnavailableError, match="clock jumped"):
            await reconciler.due(10)


async def test_organizations_whose_renewal_fails_stand_in_nobodys_way(world: World) -> None:
    """They are the oldest ones that are due, and as many as are asked for at once."""
    for number, organization_id in enumerate(("org_failing", "org_waiting")):
        await change(
            world,
            f"""
            INSERT INTO hours (id, organization_id, project_id, container_id, instance_type, slot, price_microusd,
                state, bought_at, expires_at, due_at)
            VALUES ('hour_{number}', '{organization_id}', 'prj_x', 'ctr_{number}', 'cpu-nano', 0, {PRICE}, 'paid',
                now() - interval '1 hour', now(), now() - interval '{9 - number} minutes')
            """,
        )
    lease = await LeaseKeeper(world.database, "renewals", "test", system_clock).acquire()
    assert lease is not None
    reconciler = RenewalsReconciler(world.database, KEYRING, SETTINGS, system_clock)
    assert (await reconciler.due(1)).keys == ["org_failing"]
    await reconciler.postpone("org_failing", UnavailableError("A try."), lease)
    assert (await reconciler.due(1)).keys == ["org_waiting"]


async def test_a_renewal_that_failed_is_due_again_after_its_pause(world: World) -> None:
    """Not only when somebody looks in case a hint was lost: every second of the lead counts."""
    container_id = await world.create()
    async with life(world, WatchedEngine(world.machine)) as controller:
        await rounds(world, controller, container_id)
    lease = await LeaseKeeper(world.database, "renewals", "test", system_clock).acquire()
    assert lease is not None
    clock = VirtualClock()
    reconciler = RenewalsReconciler(world.database, KEYRING, SETTINGS, clock)
    await reconciler.postpone("org_failing", UnavailableError("A try."), lease)
    assert (await reconciler.due(1)).next_in_s == PAUSE_AFTER_FAILURE_S
    await clock.advance(PAUSE_AFTER_FAILURE_S)
    next_in_s = (await reconciler.due(1)).next_in_s
    assert next_in_s is not None, "what is due next is the hour that serves"
    assert next_in_s > 60


async def test_replicas_that_are_to_go_do_not_count_towards_the_minimum(world: World) -> None:
    """The autoscaler has just taken two back, and no pass has seen it yet, when the credit ends."""
    container_id = await world.create(max_replicas=3)
    await change(world, "UPDATE containers SET desired_replicas = 3")
    async with life(world, WatchedEngine(world.machine)) as controller:
        await rounds(world, controller, container_id)
    assert len(await world.replicas(container_id, "routed")) == 3
    await leave_credit(world, 0)
    await change(world, "UPDATE containers SET desired_replicas = 1, reconcile_at = now()")
    await change(world, f"UPDATE hours SET due_at = {MOMENT_LATER} WHERE due_at IS NOT NULL")
    await renew_all(world)
    row = await world.container(container_id)
    assert (row.desired_state, row.stop_reason) == ("stopped", "stopped_no_credit")

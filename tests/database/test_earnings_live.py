"""From a replica that is placed to money that is payable, with the reconcilers as they are: the second machine has an owner.

What other tests write into rows by hand is written here by whoever writes it in earnest: hours by passes and renewals, spans by a
gateway's reports, moves of hours by a container that is scaled.
"""

import asyncio

import pytest
from earnings_support import Market
from machines_support import SECOND, Fleet, leading, new_fleet, serving
from reconciler_support import SETTINGS, World, eventually
from test_hours_crashes import scale
from test_reconciler_canary import canary
from test_reconciler_drafts import draft
from test_renewals import END_SOON, PRICE, change, leave_credit, query, renew_all

from moorage.billing.earnings.reconciler import EarningsReconciler
from moorage.containers import service
from moorage.containers.canaries.service import promote_canary
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.ledger.accounts import BANK, Kind, credit_of
from moorage.ledger.repository import Posting, lock_available, post

HOUR_AGO = "- interval '61 minutes'"


@pytest.fixture
async def fleet(database: Database) -> Fleet:
    """Whatever it has room for runs on the owned machine."""
    fleet = await new_fleet(database)
    await change(fleet.world, "UPDATE nodes SET schedulable = false WHERE engine <> 'mch_second'")
    await change(fleet.world, "INSERT INTO organizations (id, name) VALUES ('org_owner', 'Owner')")
    await change(
        fleet.world,
        "INSERT INTO machines (id, infrastructure, state, created_by, owner_organization_id) "
        f"VALUES ('{SECOND}', 'community', 'joining', 'usr', 'org_owner')",
    )
    return fleet


async def pay_in(world: World, microusd: int) -> None:
    """Instead of the credit to begin with, which earns nothing."""
    organization = world.project.organization_id
    async with world.database.transaction() as session:
        posting = Posting(
            "transfer", Kind.BANK_TRANSFER, organization, BANK, credit_of(organization), microusd
        )
        await post(session, posting)
    await change(world, "UPDATE credit_lots SET source = 'transfer'")


async def hour_passes(world: World) -> None:
    """Everything that is written lies an hour further back; the gateway was there all the time."""
    await change(
        world,
        f"UPDATE hours SET bought_at = bought_at {HOUR_AGO}, begins_at = begins_at {HOUR_AGO}, "
        f"expires_at = expires_at {HOUR_AGO}",
    )
    await change(world, f"UPDATE hour_moves SET moved_at = moved_at {HOUR_AGO}")
    await change(
        world, f"UPDATE served_spans SET began_at = began_at {HOUR_AGO}, ended_at = ended_at {HOUR_AGO}"
    )


async def settle(world: World) -> Market:
    market = Market(world.database)
    reconciler = EarningsReconciler(world.database, SETTINGS, system_clock)
    lease = await market.lease()
    while keys := (await reconciler.due(50)).keys:
        for key in keys:
            await reconciler.reconcile(key, lease)
    return market


async def test_an_hour_from_its_purchase_to_its_earnings(fleet: Fleet) -> None:
    world = fleet.world
    async with leading(fleet) as alive:
        chat = await world.create()
        await pay_in(world, 100 * PRICE)
        (replica,) = await serving(alive, chat, 1)
        assert replica.engine == SECOND
        await change(world, END_SOON)
        await renew_all(world)
        await hour_passes(world)
        await world.gateway_step()
    market = await settle(world)
    ((hours, served_us),) = await query(world, "SELECT count(*), sum(served_us)::bigint FROM earnings")
    assert hours == 1, "the one that follows is not over"
    assert isinstance(served_us, int)
    assert 3_590_000_000 < served_us <= 3_600_000_000, "from the gateway's first report to the hour's end"
    balance = await market.balance("org_owner")
    assert balance.held_microusd == PRICE * 70 * served_us // (100 * 3_600_000_000)
    assert await market.differences() == []
    await settle(world)
    assert (await market.balance("org_owner")).held_microusd == balance.held_microusd, "once"


async def test_what_is_left_of_an_hour_moves_to_another_slot(fleet: Fleet) -> None:
    """The owner has the time in both, and not a second of it twice."""
    world = fleet.world
    async with leading(fleet) as alive:
        chat = await world.create(replicas=2, max_replicas=3)
        await pay_in(world, 100 * PRICE)
        first, second = await serving(alive, chat, 2)
        # The second goes. The first's hour is over and nothing follows it, so its replacement uses what is left of the other.
        await scale(world, chat, 1)
        await serving(alive, chat, 1)
        gone = f"UPDATE hours SET expires_at = now() - interval '1 second', due_at = NULL WHERE slot = {first.slot}"
        await change(world, gone)
        fleet.second.end(first.id)
        await change(world, "UPDATE containers SET reconcile_at = now()")
        await serving(alive, chat, 1)
        await world.gateway_step()
    moves = await query(world, "SELECT from_slot, slot FROM hour_moves JOIN hours ON id = hour_id")
    assert moves == [(second.slot, first.slot)]
    await hour_passes(world)
    await change(world, "UPDATE gateways SET seen_at = now()")
    market = await settle(world)
    paid = await query(world, "SELECT sum(served_us) > 0, count(DISTINCT replica_id) FROM earnings")
    assert paid[0][0] is True
    rows = "SELECT hour_id FROM earnings JOIN hour_moves USING (hour_id) WHERE replica_id = '{}'"
    assert await query(world, rows.format(second.id)), "what served before the move"
    assert await market.differences() == []


async def test_a_second_lies_in_one_hour_when_what_is_left_of_another_comes_to_its_slot(fleet: Fleet) -> None:
    """The first slot's hour could not be followed and is not over when the container starts again, with what the second has left."""
    world = fleet.world
    async with leading(fleet) as alive:
        chat = await world.create(replicas=2, max_replicas=2)
        await pay_in(world, 100 * PRICE)
        await serving(alive, chat, 2)
        await scale(world, chat, 1)
        await serving(alive, chat, 1)
        await leave_credit(world, 1)
        await change(world, f"{END_SOON} AND slot = 0")
        await renew_all(world)
        for _ in range(8):
            await alive.round(chat)
        row = await world.container(chat)
        assert (row.state, row.reason) == ("STOPPED", "stopped_no_credit")
        await change(world, "UPDATE containers SET settings = settings || '{\"min_replicas\": 1}'")
        await world.ask(service.start_container, chat)
        (again,) = await serving(alive, chat, 1)
        assert again.slot == 0
        await hour_passes(world)
        await world.gateway_step()
    market = await settle(world)
    ((served_us,),) = await query(
        world, f"SELECT sum(served_us)::bigint FROM earnings WHERE replica_id = '{again.id}'"
    )
    assert isinstance(served_us, int)
    assert served_us <= 3_661_000_000, (
        "no more than there is between its first second and the end of what was bought"
    )
    assert await market.differences() == []


async def test_hours_on_the_operators_machines_are_settled_for_nobody(fleet: Fleet) -> None:
    world = fleet.world
    await change(world, "UPDATE machines SET owner_organization_id = NULL, infrastructure = 'operator'")
    async with leading(fleet) as alive:
        chat = await world.create()
        await serving(alive, chat, 1)
        await hour_passes(world)
    await settle(world)
    assert await query(world, "SELECT count(*) FROM earnings") == [(0,)]
    assert await query(world, "SELECT count(*) FROM hours WHERE settled_at IS NULL AND state = 'paid'") == [
        (0,)
    ]


async def test_what_was_on_trial_earns_in_the_slot_that_it_takes_over(fleet: Fleet) -> None:
    world = fleet.world
    async with leading(fleet) as alive:
        chat = await world.create()
        await pay_in(world, 100 * PRICE)
        await serving(alive, chat, 1)
        await draft(world, chat, env={"WORD": "new"})
        await world.ask(canary, chat)
        await serving(alive, chat, 2)
        await world.ask(promote_canary, chat)
        (promoted,) = await serving(alive, chat, 1)
        assert (promoted.version, promoted.slot) == (2, 0)
        await hour_passes(world)
        await world.gateway_step()
    market = await settle(world)
    paid = await query(
        world,
        f"SELECT slot FROM earnings JOIN hours h ON h.id = hour_id WHERE replica_id = '{promoted.id}' ORDER BY slot",
    )
    assert paid == [(0,), (1000,)], "from when it was promoted on, in what was bought for it"
    assert await market.differences() == []


async def test_an_hour_is_settled_while_its_container_is_renewed(fleet: Fleet) -> None:
    """Renewals were away for longer than an hour, so several hours of one container are over and not followed yet."""
    world = fleet.world
    async with leading(fleet) as alive:
        chat = await world.create(replicas=2)
        await pay_in(world, 100 * PRICE)
        await serving(alive, chat, 2)
        await hour_passes(world)
        await world.gateway_step()
    await change(world, END_SOON)
    ((second,),) = await query(world, "SELECT id FROM hours WHERE slot = 1")
    market = Market(world.database)
    lease = await market.lease()
    reconciler = EarningsReconciler(world.database, SETTINGS, system_clock)
    async with world.database.transaction() as session:
        # Both are on their way when the account is free.
        await lock_available(session, world.project.organization_id)
        renewed = asyncio.create_task(renew_all(world))
        await waiting(world, 1)
        settled = asyncio.create_task(reconciler.reconcile(f"hour {second}", lease))
        await waiting(world, 2)
    await asyncio.gather(renewed, settled)
    assert await query(world, "SELECT count(*) FROM hours WHERE renews IS NOT NULL") == [(2,)]
    assert await query(world, f"SELECT settled_at IS NULL FROM hours WHERE id = '{second}'") == [(False,)]
    assert await market.differences() == []


async def waiting(world: World, count: int) -> None:
    """So many of the test's transactions wait for a lock."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

    async def they_do() -> bool:
        return await query(world, waits) == [(count,)]

    await eventually(they_do, f"{count} wait")

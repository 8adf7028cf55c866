"""Settling: two at once, beside a payment that is taken back, hours that pause, and a check that finds what is wrong."""

import asyncio
from datetime import timedelta

import pytest
from earnings_support import KEYRING, LENGTH, PRICE, SETTINGS, SHARE, Market
from sqlalchemy import text

from moorage.billing.cards.service import book
from moorage.billing.earnings.repository import hear_voids, look_again
from moorage.billing.earnings.service import settle_hour
from moorage.kit.database import Database
from moorage.ledger.check_repository import find_differences

WHOLE = PRICE * SHARE // 100
ANOTHER_EARNING = """
INSERT INTO earnings SELECT hour_id, 'rep_more', owner_organization_id, buyer_organization_id, machine_id, hour_began_at,
    hour_ended_at, served_us, length_us, price_microusd, share_percent, card_microusd, transfer_microusd, card_payable_at,
    transfer_payable_at FROM earnings
"""


@pytest.fixture
async def market(database: Database) -> Market:
    return Market(database)


async def blocked(market: Market, number: int) -> None:
    """Until so many of the test's connections wait for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(30):
        while (await market.rows(waiting))[0][0] != number:  # noqa: ASYNC110 - only Postgres knows
            await asyncio.sleep(0.02)


async def test_two_controllers_settle_an_hour_once(market: Market) -> None:
    buyer, owner = await market.organization(), await market.organization()
    await market.transfer(buyer, PRICE)
    hour = await market.served_hour(buyer, owner)

    async def settle() -> None:
        async with market.database.transaction() as session:
            await settle_hour(session, SETTINGS, hour)

    async with market.database.transaction() as first:
        await settle_hour(first, SETTINGS, hour)
        second = asyncio.create_task(settle())
        await blocked(market, 1)
    await second
    assert (await market.balance(owner)).held_microusd == WHOLE
    assert await market.differences() == []


@pytest.mark.parametrize("by", ["payment", "machine"])
async def test_several_earnings_are_locked_in_one_order(market: Market, by: str) -> None:
    """Whatever order they lie in: the last was written first, so that a scan meets them backwards."""
    buyer, owner = await market.organization(), await market.organization()
    await market.pay_by_card(buyer, PRICE)
    hour = await market.served_hour(buyer, owner)
    async with market.database.transaction() as session:
        await settle_hour(session, SETTINGS, hour)
    await market.execute(ANOTHER_EARNING)
    ids = [
        row[0] for row in await market.rows("SELECT replica_id FROM earnings ORDER BY hour_id, replica_id")
    ]
    for replica_id in reversed(ids):
        await market.execute(f"UPDATE earnings SET look_at = NULL WHERE replica_id = '{replica_id}'")
    ((machine_id,),) = set(await market.rows("SELECT machine_id FROM earnings"))
    ((lot_id,),) = await market.rows("SELECT id FROM credit_lots WHERE source = 'card'")

    async def mark() -> None:
        async with market.database.transaction() as session:
            await (
                look_again(session, str(lot_id)) if by == "payment" else hear_voids(session, str(machine_id))
            )

    its = "SELECT replica_id FROM earnings WHERE replica_id = '{}' FOR UPDATE {}"
    async with market.database.transaction() as session:
        await session.execute(text(its.format(ids[0], "")))
        marking = asyncio.create_task(mark())
        await blocked(market, 1)
        free = [bool(await market.rows(its.format(one, "SKIP LOCKED"))) for one in ids]
    await marking
    assert free == [False, True], "who waits for the first has locked none that comes after it"


@pytest.mark.parametrize("first", ["settled", "taken back"])
async def test_a_payment_that_is_taken_back_while_its_hour_is_settled(market: Market, first: str) -> None:
    """Whoever comes second sees what the first did."""
    buyer, owner = await market.organization(), await market.organization()
    paid = await market.pay_by_card(buyer, PRICE)
    hour = await market.served_hour(buyer, owner)
    await market.dispute(paid)  # The organization is suspended by then, which takes other locks.
    name = next(iter(paid.disputes))
    disputed = paid.disputes.pop(name)
    await market.tell(paid)
    paid.disputes[name] = disputed

    async def take_back() -> None:
        async with market.database.transaction() as session:
            await book(session, paid.facts, KEYRING, SETTINGS)

    async def settle() -> None:
        async with market.database.transaction() as session:
            await settle_hour(session, SETTINGS, hour)

    async with market.database.transaction() as session:
        if first == "settled":
            await settle_hour(session, SETTINGS, hour)
            other = asyncio.create_task(take_back())
        else:
            await book(session, paid.facts, KEYRING, SETTINGS)
            other = asyncio.create_task(settle())
        await blocked(market, 1)
    await other
    await market.work()
    assert (await market.balance(owner)).held_microusd == 0
    assert await market.differences() == []


async def test_an_hour_that_paused_earns_what_it_served(market: Market) -> None:
    """From its beginning to its end it took longer than it is; what served twice as long is paid for one hour."""
    buyer, owner = await market.organization(), await market.organization()
    await market.transfer(buyer, 2 * PRICE)
    begins_at = await market.now() - timedelta(days=1)
    for slot in (0, 1):
        assert await market.buy_hour(buyer, begins_at, slot=slot) is not None
    await market.execute("UPDATE hours SET expires_at = expires_at + interval '10 minutes'")
    container = f"ctr_{buyer}"
    half, later = LENGTH / 2, begins_at + timedelta(minutes=10, seconds=30)
    await market.serve(owner, "rep_a", begins_at, begins_at + half, container=container)
    await market.serve(owner, "rep_b", later, later + LENGTH, container=container)
    await market.serve(owner, "rep_c", begins_at, begins_at + 5 * LENGTH, container=container, slot=1)
    await market.work()
    assert (await market.balance(owner)).held_microusd == 2 * WHOLE
    assert await market.differences() == []


async def test_an_hour_that_pauses_is_not_over(market: Market) -> None:
    buyer, owner = await market.organization(), await market.organization()
    await market.transfer(buyer, PRICE)
    await market.served_hour(buyer, owner)
    await market.execute("UPDATE hours SET paused_at = now(), due_at = now() + interval '1 day'")
    await market.work()
    assert (await market.balance(owner)).held_microusd == 0
    await market.execute("UPDATE hours SET due_at = NULL")  # nobody came back for it
    await market.work()
    assert (await market.balance(owner)).held_microusd == WHOLE


async def test_an_hour_says_what_it_was_paid_with(market: Market) -> None:
    buyer = await market.organization()
    await market.transfer(buyer, PRICE)
    await market.pay_by_card(buyer, PRICE // 4)
    await market.give(buyer, PRICE // 2)
    await market.buy_hour(buyer, await market.now())
    funds = await market.rows(
        "SELECT source, f.amount_microusd FROM hour_funds f JOIN credit_lots l ON l.id = lot_id ORDER BY number DESC"
    )
    assert funds == [
        ("given", PRICE // 2),
        ("card", PRICE // 4),
        ("transfer", PRICE - PRICE // 2 - PRICE // 4),
    ]


DAMAGES = (
    ("UPDATE credit_lots SET spent_microusd = spent_microusd - 1", "a balance is what is left"),
    ("UPDATE hour_funds SET amount_microusd = amount_microusd - 1", "each hour says where its money"),
    ("DELETE FROM hour_funds", "what came in was spent once"),
    ("UPDATE earnings SET transfer_microusd = transfer_microusd - 1", "what an owner earned"),
    ("DELETE FROM earnings", "what an owner earned"),
    (
        "UPDATE earnings SET share_percent = 100, transfer_microusd = price_microusd",
        "what an owner earned",
    ),
    (ANOTHER_EARNING, "an hour earns its share at most"),
    (
        "UPDATE served_spans SET ended_at = ended_at - interval '1 second'",
        "nobody is paid for more than gateways saw",
    ),
)


async def test_the_check_finds_what_is_wrong(market: Market) -> None:
    buyer, owner = await market.organization(), await market.organization()
    await market.transfer(buyer, 2 * PRICE)
    await market.served_hour(buyer, owner)
    await market.work()
    assert await market.differences() == []
    for damage, rule in DAMAGES:
        async with market.database.session() as session:  # which is rolled back
            await session.execute(text(damage))
            found = await find_differences(session)
        assert any(one.rule.startswith(rule) for one in found), damage


async def test_a_payment_for_very_many_hours_is_refunded(market: Market) -> None:
    """More than a statement can have arguments."""
    buyer = await market.organization()
    payment = await market.pay_by_card(buyer, PRICE)
    await market.execute(
        "INSERT INTO hour_funds (hour_id, lot_id, begins_microusd, amount_microusd) "
        "SELECT 'hour_' || n, l.id, n, 1 FROM credit_lots l, generate_series(1, 40000) n WHERE l.organization_id = :buyer",
        buyer=buyer,
    )
    await market.refund(payment, PRICE)
    lots = await market.rows(
        "SELECT taken_back_microusd FROM credit_lots WHERE organization_id = :id", id=buyer
    )
    assert lots == [(PRICE,)]

"""Nobody gets money out by buying from themselves, with gifts, or with payments that are taken back. Each scheme: nothing payable.

Every one is tried for as long as it could pay: all that is held has waited its time, and whatever can be looked at was.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta

import asyncpg
import pytest
from earnings_support import LENGTH, PRICE, SETTINGS, SHARE, Market

from moorage.billing.earnings.reconciler import EarningsReconciler
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import ConflictError, UnavailableError
from moorage.machines.ownership import void_served

WHOLE = PRICE * SHARE // 100
FOR_EVER = 400
_numbers = itertools.count(1)
IBAN = "DE02 1203 0000 0000 2020 51"


@dataclass
class Scene:
    market: Market
    owner: str
    buyer: str

    async def payable(self) -> int:
        """When all time has passed, and whatever waits has been looked at as often as it is in that time."""
        for days in (8, 113, FOR_EVER):
            await self.market.work()
            await self.market.days_pass(days)
        await self.market.work()
        assert await self.market.differences() == []
        balance = await self.market.balance(self.owner)
        assert balance.held_microusd == 0
        return balance.payable_microusd

    async def is_paid_at(self, organization: str, account: str) -> None:
        """For an hour that somebody else bought."""
        stranger = await self.market.organization()
        await self.market.person(stranger)
        await self.market.account(organization, account)
        await self.market.transfer(stranger, PRICE)
        await self.market.served_hour(stranger, organization)
        await self.market.work()
        await self.market.days_pass(8)
        await self.market.work()
        assert await self.market.payout(organization) == WHOLE


@pytest.fixture(scope="module")
def shared_dsn(postgres_dsn: str) -> Iterator[str]:
    """One database for all schemes: to make one takes as long as a scheme."""

    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(postgres_dsn.replace("/moorage?", "/postgres?"))
        await connection.execute(statement)
        await connection.close()

    asyncio.run(execute("CREATE DATABASE test_self_dealing TEMPLATE moorage"))
    yield postgres_dsn.replace("/moorage?", "/test_self_dealing?")
    asyncio.run(execute("DROP DATABASE test_self_dealing WITH (FORCE)"))


@pytest.fixture
async def scene(shared_dsn: str) -> AsyncIterator[Scene]:
    database = Database(shared_dsn, pool_size=5)
    market = Market(database, prefix=f"{next(_numbers)}x")
    owner, buyer = await market.organization(), await market.organization()
    await market.person(owner)
    await market.person(buyer)
    yield Scene(market, owner, buyer)
    await database.close()


async def test_somebody_elses_money_is_earned(scene: Scene) -> None:
    """The other tests could not fail without this one."""
    await scene.market.pay_by_card(scene.buyer, PRICE, f"card of {scene.buyer}")
    await scene.market.transfer(scene.buyer, PRICE)
    for _ in range(2):
        await scene.market.served_hour(scene.buyer, scene.owner)
    assert await scene.payable() == 2 * WHOLE


async def test_own_money_on_an_own_machine(scene: Scene) -> None:
    await scene.market.transfer(scene.owner, PRICE)
    await scene.market.served_hour(scene.owner, scene.owner)
    assert await scene.payable() == 0


async def test_given_credit(scene: Scene) -> None:
    await scene.market.give(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    assert await scene.payable() == 0


async def test_given_credit_behind_money_that_was_there_before(scene: Scene) -> None:
    """Given credit goes first, so it cannot be kept for what would have earned nothing."""
    await scene.market.transfer(scene.buyer, PRICE)
    await scene.market.give(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    assert await scene.payable() == 0


async def test_given_credit_is_not_turned_into_money_by_a_refund(scene: Scene) -> None:
    """A payment that is spent and refunded takes the gift that came since; the hour was then paid with nothing."""
    paid = await scene.market.pay_by_card(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    await scene.market.give(scene.buyer, PRICE)
    await scene.market.refund(paid, PRICE)
    assert await scene.payable() == 0


async def test_a_shared_member(scene: Scene) -> None:
    await scene.market.person(scene.owner, scene.buyer)
    await scene.market.transfer(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    assert await scene.payable() == 0


async def test_a_member_who_leaves_for_the_hour(scene: Scene) -> None:
    person = await scene.market.person(scene.owner, scene.buyer)
    await scene.market.leave(person, scene.owner)
    await scene.market.days_pass(3)
    await scene.market.transfer(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    assert await scene.payable() == 0


async def test_members_who_take_turns(scene: Scene) -> None:
    """Never in both at the same time, and in neither when it is looked at."""
    person = await scene.market.person(scene.owner)
    await scene.market.leave(person, scene.owner)
    await scene.market.join(person, scene.buyer)
    await scene.market.leave(person, scene.buyer)
    await scene.market.transfer(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    assert await scene.payable() == 0


async def test_a_member_who_joins_after_the_hour(scene: Scene) -> None:
    await scene.market.transfer(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    await scene.market.work()
    assert (await scene.market.balance(scene.owner)).held_microusd == WHOLE
    await scene.market.person(scene.owner, scene.buyer)
    assert await scene.payable() == 0


async def test_who_left_long_ago_is_a_stranger(scene: Scene) -> None:
    person = await scene.market.person(scene.owner, scene.buyer)
    await scene.market.leave(person, scene.owner)
    await scene.market.days_pass(200)
    await scene.market.transfer(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    assert await scene.payable() == WHOLE


async def test_a_shared_card(scene: Scene) -> None:
    await scene.market.pay_by_card(scene.owner, 1, f"card of {scene.owner}")
    await scene.market.pay_by_card(scene.buyer, PRICE, f"card of {scene.owner}")
    await scene.market.served_hour(scene.buyer, scene.owner)
    assert await scene.payable() == 0


async def test_a_card_that_paid_for_something_else(scene: Scene) -> None:
    """The hour itself was paid by transfer."""
    await scene.market.pay_by_card(scene.owner, 1, f"card of {scene.owner}")
    await scene.market.transfer(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    await scene.market.pay_by_card(scene.buyer, 1, f"card of {scene.owner}")
    assert await scene.payable() == 0


async def test_a_shared_payout_account(scene: Scene) -> None:
    """However it is written, and whether the buyer has it still."""
    await scene.is_paid_at(scene.owner, IBAN)
    for spelling in (IBAN.replace(" ", ""), IBAN.lower(), IBAN.replace(" ", "-")):
        buyer = await scene.market.organization()
        await scene.is_paid_at(buyer, spelling)
        await scene.market.account(buyer, f"GB33BUKB20201555555{buyer[-2:]}".replace("_", "0"))
        await scene.market.transfer(buyer, PRICE)
        await scene.market.served_hour(buyer, scene.owner)
    assert await scene.payable() == 0


async def test_a_buyer_who_names_the_owners_account_takes_nothing_from_them(scene: Scene) -> None:
    """Anybody can: nothing has to be shown for it."""
    await scene.is_paid_at(scene.owner, IBAN)
    await scene.market.account(scene.buyer, IBAN)
    await scene.market.transfer(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    assert await scene.payable() == WHOLE


async def test_a_chargeback_while_it_is_held(scene: Scene) -> None:
    paid = await scene.market.pay_by_card(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    await scene.market.work()
    assert (await scene.market.balance(scene.owner)).held_microusd == WHOLE
    await scene.market.days_pass(119)
    await scene.market.work()
    assert (await scene.market.balance(scene.owner)).payable_microusd == 0
    await scene.market.dispute(paid)
    assert await scene.payable() == 0


async def test_a_chargeback_before_the_credit_is_spent(scene: Scene) -> None:
    """The operator may resume the organization; what its bank took back earns nothing all the same."""
    paid = await scene.market.pay_by_card(scene.buyer, PRICE)
    await scene.market.dispute(paid)
    await scene.market.execute("UPDATE organizations SET suspended_at = NULL")
    await scene.market.served_hour(scene.buyer, scene.owner)
    assert await scene.payable() == 0


@pytest.mark.parametrize("way", ["refund", "dispute"])
@pytest.mark.long
async def test_taken_back_after_the_payout(scene: Scene, way: str) -> None:
    """What was sent is owed by the next earnings, and by nobody else."""
    market = scene.market
    await market.account(scene.owner, IBAN)
    paid = await market.pay_by_card(scene.buyer, PRICE)
    await market.served_hour(scene.buyer, scene.owner)
    assert await scene.payable() == WHOLE
    assert await market.payout(scene.owner) == WHOLE
    await (market.refund(paid, PRICE) if way == "refund" else market.dispute(paid))
    assert await scene.payable() == 0
    assert (await market.balance(scene.owner)).owed_microusd == WHOLE
    with pytest.raises(ConflictError) as refused:
        await market.payout(scene.owner)
    assert refused.value.code == "payout_too_small"
    # An honest hour later.
    honest = await market.organization()
    await market.transfer(honest, 3 * PRICE)
    await market.served_hour(honest, scene.owner)
    assert await scene.payable() == 0
    await market.served_hour(honest, scene.owner)
    assert await scene.payable() == WHOLE


async def test_a_payout_that_is_no_longer_covered_is_not_confirmed(scene: Scene) -> None:
    market = scene.market
    await market.account(scene.owner, IBAN)
    paid = await market.pay_by_card(scene.buyer, PRICE)
    await market.served_hour(scene.buyer, scene.owner)
    assert await scene.payable() == WHOLE
    payout = await market.ask_for_payout(scene.owner)
    await market.dispute(paid)
    await market.work()
    with pytest.raises(ConflictError) as refused:
        await market.confirm(payout)
    assert refused.value.code == "payout_not_covered"
    assert (await market.balance(scene.owner)).paid_microusd == 0
    # Unless it has left the bank already: then the books say so.
    assert await market.confirm(payout, sent=True) == WHOLE
    assert (await market.balance(scene.owner)).owed_microusd == WHOLE
    assert await scene.payable() == 0


async def test_an_account_that_is_changed_while_the_payout_is_on_its_way(scene: Scene) -> None:
    """The operator has sent it, and not said so yet."""
    await scene.market.transfer(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    await scene.market.account(scene.owner, IBAN)
    assert await scene.payable() == WHOLE
    payout_id = await scene.market.ask_for_payout(scene.owner)
    await scene.market.account(scene.owner, IBAN.replace("51", "77"))
    with pytest.raises(ConflictError, match="already refused"):
        await scene.market.confirm(payout_id)
    sent = await scene.market.confirm(payout_id, sent=True)
    assert await scene.payable() == WHOLE - sent
    assert await scene.market.differences() == []


async def test_figures_of_the_machine(scene: Scene) -> None:
    """It says of itself what it likes: there is nowhere to write it but in what gateways report."""
    begins_at = await scene.market.now() - timedelta(days=1)
    await scene.market.transfer(scene.buyer, PRICE)
    assert await scene.market.buy_hour(scene.buyer, begins_at) is not None
    await scene.market.execute(
        "INSERT INTO machines (id, infrastructure, state, created_by, owner_organization_id, replicas, facts) "
        "VALUES ('mch_liar', 'community', 'joining', 'usr', :owner, 1000, '{\"served_s\": 3600}')",
        owner=scene.owner,
    )
    assert await scene.payable() == 0


async def test_two_names_for_one_gpu(scene: Scene) -> None:
    """The second name has a replica in the same slot, and even gateways that route to it: the hour is paid once."""
    market = scene.market
    begins_at = await market.now() - timedelta(days=1)
    await market.transfer(scene.buyer, PRICE)
    await market.buy_hour(scene.buyer, begins_at)
    for replica, machine in ((f"rep_one_{scene.owner}", "mch_one"), (f"rep_two_{scene.owner}", "mch_two")):
        await market.serve(
            scene.owner,
            replica,
            begins_at,
            begins_at + LENGTH,
            container=f"ctr_{scene.buyer}",
            machine=machine,
        )
    assert await scene.payable() == WHOLE


async def test_two_gateways_that_see_the_same_seconds(scene: Scene) -> None:
    market = scene.market
    begins_at = await market.now() - timedelta(days=1)
    await market.transfer(scene.buyer, PRICE)
    await market.buy_hour(scene.buyer, begins_at)
    half = begins_at + LENGTH / 2
    for gateway in ("gtw_a", "gtw_b"):
        await market.serve(
            scene.owner,
            f"rep_one_{scene.owner}",
            begins_at,
            half,
            container=f"ctr_{scene.buyer}",
            gateway=gateway,
        )
    assert await scene.payable() == WHOLE // 2


async def test_time_that_nobody_bought(scene: Scene) -> None:
    """A replica that serves for a day, of which one hour was paid."""
    market = scene.market
    begins_at = await market.now() - timedelta(days=3)
    await market.transfer(scene.buyer, PRICE)
    await market.buy_hour(scene.buyer, begins_at)
    day = timedelta(days=1)
    await market.serve(
        scene.owner,
        f"rep_one_{scene.owner}",
        begins_at - day,
        begins_at + day,
        container=f"ctr_{scene.buyer}",
    )
    assert await scene.payable() == WHOLE


async def test_a_failed_proof(scene: Scene) -> None:
    """Of what is held, and of what is not settled yet."""
    await scene.market.transfer(scene.buyer, 2 * PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner, machine="mch_small")
    await scene.market.work()
    await scene.market.served_hour(scene.buyer, scene.owner, machine="mch_small")
    async with scene.market.database.transaction() as session:
        await void_served(session, "mch_small", "proof_failed")
    assert await scene.payable() == 0


async def test_a_clock_that_jumps(scene: Scene) -> None:
    """All that is held would be payable at once: for a while nothing is."""
    await scene.market.transfer(scene.buyer, PRICE)
    await scene.market.served_hour(scene.buyer, scene.owner)
    await scene.market.work()
    reconciler = EarningsReconciler(scene.market.database, SETTINGS, system_clock)
    await reconciler.due(10)
    times = reconciler._jumps._times
    assert times is not None
    reconciler._jumps._times = (times[0] - timedelta(days=120), times[1])
    for _ in range(2):
        with pytest.raises(UnavailableError, match="Nothing that owners earned becomes payable"):
            await reconciler.due(10)
    assert (await scene.market.balance(scene.owner)).payable_microusd == 0


async def test_an_hour_that_was_settled_is_settled(scene: Scene) -> None:
    """Spans that somebody adds later, and a controller that begins anew, change nothing."""
    market = scene.market
    begins_at = await market.now() - timedelta(days=1)
    await market.transfer(scene.buyer, PRICE)
    await market.buy_hour(scene.buyer, begins_at)
    container = f"ctr_{scene.buyer}"
    await market.serve(
        scene.owner, f"rep_one_{scene.owner}", begins_at, begins_at + LENGTH / 2, container=container
    )
    await market.work()
    await market.serve(
        scene.owner, f"rep_two_{scene.owner}", begins_at + LENGTH / 2, begins_at + LENGTH, container=container
    )
    assert await scene.payable() == WHOLE // 2

"""Generated stories of buyers and owners, against an oracle that counts coins and seconds (`earnings_oracle.py`).

After each story the books say what the oracle says, the entries add up to zero, and the online check finds nothing. In those with
crashes the reconciler dies at each of its statements in turn, and begins again; and so does whoever names an account, asks for a payout or
confirms it, who asks again as somebody does whose request was not answered.
"""

import random
from asyncio import CancelledError
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from earnings_oracle import COIN, SECONDS, Coin, Hour, Oracle, Seen
from earnings_support import SETTINGS, SHARE, Market, Payment
from reconciler_support import Doom, DoomedDatabase

from moorage.billing.earnings.reconciler import EarningsReconciler
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import ConflictError
from moorage.machines.ownership import void_served

PRICE_COINS = 97
STEPS = 12
QUICK, CHUNK, CHUNKS = 3, 25, 40
SOME = 3
"""Chunks that `make test-long` runs; `make prove-stories` runs the others."""
CRASHES = 8


@dataclass
class CardPayment:
    payment: Payment
    lot: int
    refunded: dict[str, list[Coin]] = field(default_factory=dict)

    def taken_back(self) -> int:
        refunds = sum(one.amount_microusd for one in self.payment.refunds.values() if not one.failed)
        return (
            refunds + sum(one.amount_microusd for one in self.payment.disputes.values() if not one.won)
        ) // COIN


@dataclass
class Story:
    market: Market
    seed: int
    doomed: DoomedDatabase | None = None
    told: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.oracle = Oracle(SHARE)
        self.payments: list[CardPayment] = []
        self.replicas: dict[str, Seen] = {}

    async def tell(self) -> None:
        await self.begin()
        happenings = (
            *[self.rent] * 6,
            *[self.money_comes_in] * 3,
            *[self.days_pass] * 3,
            *[self.payout] * 3,
            *(self.refund, self.refund_fails, self.dispute, self.dispute_is_won),
            *(self.somebody_joins, self.somebody_leaves, self.cards_are_shared),
            *(self.an_owners_account_is_named, self.proof_fails),
        )
        for _ in range(STEPS):
            happening = self.chance.choice(happenings)
            await happening()
            self.told[happening.__name__] += 1
            await self.work()
        if self.doomed is not None:
            await self.end()
        await self.compare()

    async def begin(self) -> None:
        self.buyers = [await self.market.organization() for _ in range(2)]
        self.owners = [await self.market.organization() for _ in range(2)]
        self.persons = []
        for organization in (*self.buyers, *self.owners):
            person = await self.market.person(organization)
            self.persons.append(person)
            self.oracle.people[organization] = {person}
        for owner in self.owners:
            await self.name_account(owner, f"ACCOUNT {owner}")
        await self.days(8.0)
        for buyer in self.buyers * 3:
            await self.money_comes_in(buyer)

    async def end(self) -> None:
        """What was earned is payable by then, and sent."""
        await self.days(130.0)
        await self.work()
        for owner in self.owners:
            await self.pay_out(owner)

    async def money_comes_in(self, buyer: str | None = None) -> None:
        buyer = buyer or self.chance.choice(self.buyers)
        coins = self.chance.choice([1, PRICE_COINS - 1, PRICE_COINS, 150, 4 * PRICE_COINS, 700])
        source = self.chance.choice(["given", "card", "card", "transfer", "transfer"])
        lot = self.oracle.comes_in(buyer, source, coins)
        if source == "given":
            await self.market.give(buyer, coins * COIN)
        elif source == "transfer":
            await self.market.transfer(buyer, coins * COIN)
        else:
            payment = await self.market.pay_by_card(buyer, coins * COIN, f"card {buyer}")
            self.oracle.cards.setdefault(buyer, set()).add(f"card {buyer}")
            self.payments.append(CardPayment(payment, lot))

    async def rent(self) -> None:
        """A container for up to three hours, with whatever gateways saw of it."""
        buyer = self.chance.choice(self.buyers)
        container = self.market.name("ctr")
        age = self.chance.choice([0.5, 0.5, 3.5, 8.5, 60.5, 125.5])
        begins_at = await self.market.now() - timedelta(days=age)
        seen = [await self.saw(container, begins_at) for _ in range(self.chance.randint(1, 6))]
        for number in range(self.chance.randint(1, 3)):
            first = number * SECONDS
            at = begins_at + timedelta(seconds=first)
            hour_id = await self.market.buy_hour(buyer, at, container=container, price=PRICE_COINS * COIN)
            coins = self.oracle.spend(buyer, PRICE_COINS)
            assert (hour_id is None) == (coins is None), "it can be paid or not"
            if hour_id is None or coins is None:
                return
            slots = [0] * SECONDS
            if self.chance.random() < 0.25:
                slots = await self.move(hour_id)
            self.oracle.hours.append(Hour(hour_id, buyer, coins, first, slots, seen, age))

    async def move(self, hour_id: str) -> list[int]:
        """What was left of it went from slot 1 to slot 0."""
        moved = self.chance.randint(0, SECONDS)
        await self.market.execute(
            "INSERT INTO hour_moves (hour_id, moved_at, from_slot) "
            f"SELECT id, begins_at + interval '{moved} s', 1 FROM hours WHERE id = :id",
            id=hour_id,
        )
        return [1] * moved + [0] * (SECONDS - moved)

    async def saw(self, container: str, begins_at: datetime) -> Seen:
        owner = self.chance.choice([*self.owners * 4, self.buyers[0]])
        number = self.chance.randint(0, 3)
        first = self.chance.randint(-90, 170)
        until = first + self.chance.choice([1, 20, 59, 60, 61, 200])
        one = Seen(f"rep_{container}_{number}", f"mch_{owner}", owner, number // 3, first, until)
        # One replica is on one machine, whoever speaks of it.
        known = self.replicas.setdefault(one.replica, one)
        one = replace(one, owner=known.owner, machine=known.machine)
        gateway = self.market.name("gtw")
        began_at, ended_at = (begins_at + timedelta(seconds=second) for second in (first, until))
        still_open = self.chance.random() < 0.2
        if still_open:
            seen = "INSERT INTO gateways (id, started_at, seen_at) VALUES (:id, :at, :at)"
            await self.market.execute(seen, id=gateway, at=ended_at)
        await self.market.serve(
            one.owner,
            one.replica,
            began_at,
            None if still_open else ended_at,
            container=container,
            slot=one.slot,
            gateway=gateway,
            machine=one.machine,
        )
        return one

    async def refund(self) -> None:
        if not self.payments:
            return
        one = self.chance.choice(self.payments)
        coins = self.chance.randint(1, one.payment.amount_microusd // COIN)
        if one.taken_back() + coins > one.payment.amount_microusd // COIN:
            return
        buyer = one.payment.organization_id
        refund_id = await self.market.refund(one.payment, coins * COIN)
        one.refunded[refund_id] = self.oracle.refund(buyer, one.lot, coins)
        self.oracle.taken_back(one.lot, one.taken_back())

    async def refund_fails(self) -> None:
        able = [(one, name) for one in self.payments for name in one.refunded]
        if not able:
            return
        one, name = self.chance.choice(able)
        one.payment.refunds[name] = replace(one.payment.refunds[name], failed=True)
        await self.market.tell(one.payment)
        self.oracle.put_back(one.payment.organization_id, one.refunded.pop(name))
        self.oracle.taken_back(one.lot, one.taken_back())

    async def dispute(self) -> None:
        if not self.payments:
            return
        one = self.chance.choice(self.payments)
        whole = one.payment.amount_microusd // COIN
        await self.market.dispute(
            one.payment, self.chance.choice([whole, self.chance.randint(1, whole)]) * COIN
        )
        self.oracle.taken_back(one.lot, one.taken_back())
        await self.market.execute("UPDATE organizations SET suspended_at = NULL")

    async def dispute_is_won(self) -> None:
        able = [(one, name) for one in self.payments for name, dispute in one.payment.disputes.items()]
        if not able:
            return
        one, name = self.chance.choice(able)
        one.payment.disputes[name] = replace(one.payment.disputes[name], won=True)
        await self.market.tell(one.payment)
        self.oracle.taken_back(one.lot, one.taken_back())

    async def somebody_joins(self) -> None:
        """Rarely, or nobody ever earns anything."""
        if self.chance.random() < 0.5:
            return
        person = self.chance.choice(self.persons)
        organization = self.chance.choice((*self.buyers, *self.owners))
        await self.market.join(person, organization)
        self.oracle.people[organization].add(person)

    async def somebody_leaves(self) -> None:
        organization = self.chance.choice((*self.buyers, *self.owners))
        for person in sorted(self.oracle.people[organization])[:1]:
            await self.market.leave(person, organization)
            self.oracle.people[organization].discard(person)
            self.oracle.left_days_ago[organization, person] = 0

    async def cards_are_shared(self) -> None:
        if self.chance.random() < 0.2:
            owner, buyer = self.chance.choice(self.owners), self.chance.choice(self.buyers)
            await self.market.pay_by_card(owner, COIN, f"card {buyer}")
            self.oracle.comes_in(owner, "card", 1)
            self.oracle.cards.setdefault(owner, set()).add(f"card {buyer}")

    async def an_owners_account_is_named(self) -> None:
        """By a buyer, who takes nothing from the owner by it."""
        if self.chance.random() < 0.2:
            await self.name_account(
                self.chance.choice(self.buyers), f"ACCOUNT {self.chance.choice(self.owners)}"
            )

    async def name_account(self, organization: str, account: str) -> None:
        number = account.replace("_", "")
        await self.asked(lambda market: market.account(organization, number))

    async def proof_fails(self) -> None:
        if self.chance.random() < 0.3:
            machine = f"mch_{self.chance.choice(self.owners)}"
            async with self.market.database.transaction() as session:
                await void_served(session, machine, "proof_failed")
            self.oracle.void(machine)

    async def days_pass(self) -> None:
        await self.days(self.chance.choice([1.0, 7.0, 30.0, 120.0]))

    async def days(self, days: float) -> None:
        await self.market.days_pass(days)
        self.oracle.days_pass(days)

    async def payout(self) -> None:
        await self.pay_out(self.chance.choice(self.owners))

    async def pay_out(self, owner: str) -> None:
        expected = self.oracle.payable(owner) // COIN * COIN
        if expected:
            await self.asked(lambda market: market.ask_for_payout(owner), "payout_requested")
            requested = "SELECT id, amount_microusd FROM payouts WHERE organization_id = :owner AND state = 'requested'"
            ((payout_id, amount),) = await self.market.rows(requested, owner=owner)
            assert amount == expected
            await self.asked(lambda market: market.confirm(str(payout_id)), "payout_confirmed")
            self.oracle.paid[owner] = self.oracle.paid.get(owner, 0) + expected
            self.told["payouts made"] += 1

    async def asked(
        self, request: Callable[[Market], Awaitable[object]], done_already: str | None = None
    ) -> None:
        """In one transaction, as the API does it. Whoever got no answer asks again; `done_already`: what they are told then, if it was."""
        if self.doomed is None:
            await request(self.market)
            return
        market = replace(self.market, database=self.doomed)
        for at in range(1, 100):
            self.doomed.doom = doom = Doom(at)
            refused = None
            with suppress(CancelledError):
                refused = await _refusal(request(market))
            if not doom.dead:
                assert refused == done_already, "the last death came after the commit"
                return
            self.told["deaths of requests"] += 1
        raise AssertionError("it does not converge")

    async def work(self) -> None:
        self.oracle.work()
        if self.doomed is None:
            await self.market.work()
            return
        reconciler = EarningsReconciler(self.doomed, SETTINGS, system_clock)
        for _ in range(100):
            self.doomed.doom = Doom()
            keys = (await reconciler.due(50)).keys
            if not keys:
                return
            for key in keys:
                await self.die_at_every_statement(reconciler, key, self.doomed)
        raise AssertionError("the same stays due")

    async def die_at_every_statement(
        self, reconciler: EarningsReconciler, key: str, database: DoomedDatabase
    ) -> None:
        lease = await self.market.lease()
        for at in range(1, 100):
            database.doom = doom = Doom(at)
            with suppress(CancelledError):
                await reconciler.reconcile(key, lease)
            if not doom.dead:
                return
            self.told["crashes"] += 1
        raise AssertionError("it does not converge")

    async def compare(self) -> None:
        for owner in (*self.owners, self.buyers[0]):
            balance = await self.market.balance(owner)
            told = (balance.held_microusd, balance.payable_microusd, balance.paid_microusd)
            expected = (self.oracle.held(owner), self.oracle.payable(owner), self.oracle.paid.get(owner, 0))
            assert told == expected, f"seed {self.seed}: {owner} has (held, payable, paid) {told}"
            ((booked,),) = await self.market.rows(
                "SELECT coalesce(sum(amount_microusd), 0)::bigint FROM ledger_entries WHERE account = :account",
                account=f"earnings:{owner}",
            )
            assert booked == self.oracle.booked(owner), f"seed {self.seed}: {owner}"
        for buyer in self.buyers:
            rows = await self.market.rows(
                "SELECT available_microusd FROM credit_accounts WHERE organization_id = :buyer", buyer=buyer
            )
            assert (rows[0][0] if rows else 0) == COIN * len(self.oracle.purses.get(buyer, [])), (
                f"seed {self.seed}"
            )
        assert await self.market.differences() == [], f"seed {self.seed}"
        self.told["earnings"] += len(self.oracle.earnings)
        self.told["worth something"] += sum(any(one.worth.values()) for one in self.oracle.earnings.values())


async def _refusal(request: Awaitable[object]) -> str | None:
    try:
        await request
    except ConflictError as exc:
        return exc.code
    return None


@pytest.fixture
async def doomed(database_dsn: str) -> AsyncIterator[DoomedDatabase]:
    opened = DoomedDatabase(database_dsn)
    yield opened
    await opened.close()


async def tell(database: Database, seeds: range, doomed: DoomedDatabase | None = None) -> Counter[str]:
    told: Counter[str] = Counter()
    for seed in seeds:
        story = Story(Market(database, prefix=f"{seed}x"), seed, doomed)
        await story.tell()
        told += story.told
    return told


@pytest.mark.long
async def test_a_few_stories(database: Database) -> None:
    told = await tell(database, range(QUICK))
    assert told["worth something"] > 0


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(chunk, marks=pytest.mark.long if chunk < SOME else pytest.mark.proof)
        for chunk in range(CHUNKS)
    ],
)
async def test_stories(database: Database, chunk: int) -> None:
    told = await tell(database, range(1000 + chunk * CHUNK, 1000 + (chunk + 1) * CHUNK))
    assert told["worth something"] > 0
    print(f"\n{CHUNK} stories, as the oracle says: {dict(told)}")


@pytest.mark.long
async def test_stories_with_a_crash_at_every_statement(database: Database, doomed: DoomedDatabase) -> None:
    told = await tell(database, range(CRASHES), doomed)
    assert told["crashes"] > 100
    assert told["deaths of requests"] > 100
    assert told["payouts made"] > 5
    assert told["worth something"] > 0
    print(f"\n{CRASHES} stories, {told['crashes']} crashes, each second paid once: {dict(told)}")

"""Money is neither made nor lost: any sequence of everything that moves it, on a real Postgres, against a model.

After each step the entries add up to zero, every balance is what the model says, and the online check finds nothing.
A sequence runs in one transaction that is rolled back, so a thousand of them fit into a test.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.pool import NullPool

from moorage.kit.errors import InsufficientCreditError
from moorage.ledger.accounts import BANK, CARD, GRANTS, Kind, credit_of, receivable_of
from moorage.ledger.check_repository import find_differences
from moorage.ledger.hours_repository import (
    Buyer,
    capture,
    close,
    cover_slots,
    hold_at_admission,
    read_hours,
    release,
    renew,
)
from moorage.ledger.models import HourRow
from moorage.ledger.repository import Balance, Posting, post
from moorage.ledger.rules import Occupied

SEQUENCES = 1000
STEPS = 6
ORGANIZATIONS = ("org_a", "org_b")
PRICE = 5_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""Earlier than every hour that a sequence buys."""
HOUR, LEAD = timedelta(hours=1), timedelta(minutes=1)

organizations = st.sampled_from(ORGANIZATIONS)
amounts = st.sampled_from([1, PRICE - 1, PRICE, 3 * PRICE, 20_000_000, 10**12])
slots = st.integers(0, 3)


class Ledger(RuleBasedStateMachine):
    runner: ClassVar[asyncio.Runner]
    session: ClassVar[AsyncSession]
    steps: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.available = dict.fromkeys(ORGANIZATIONS, 0)
        self.held: dict[str, dict[int, int]] = {name: {} for name in ORGANIZATIONS}
        self.paid: dict[str, set[int]] = {name: set() for name in ORGANIZATIONS}
        self.posted: list[Posting] = []

    def run(self, step: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(step)

    @initialize()
    def begin(self) -> None:
        self.steps["sequences"] += 1
        self.savepoint = self.run(_begin(self.session))

    def teardown(self) -> None:
        self.run(self.savepoint.rollback())
        self.session.expunge_all()

    @rule(
        organization=organizations,
        amount=amounts,
        origin=st.sampled_from([(Kind.CARD_TOP_UP, CARD), (Kind.BANK_TRANSFER, BANK), (Kind.CREDIT, GRANTS)]),
    )
    def money_comes_in(self, organization: str, amount: int, origin: tuple[Kind, str]) -> None:
        kind, source = origin
        self._post(kind, organization, source, credit_of(organization), amount)
        self.available[organization] += amount

    @rule(organization=organizations, amount=amounts)
    def refund(self, organization: str, amount: int) -> None:
        if amount <= self.available[organization]:
            self._post(Kind.REFUND, organization, credit_of(organization), CARD, amount)
            self.available[organization] -= amount
        else:
            with pytest.raises(InsufficientCreditError) as refused:
                self.run(
                    _refuse(
                        self.session,
                        self._posting(Kind.REFUND, organization, credit_of(organization), CARD, amount),
                    )
                )
            assert refused.value.missing_microusd == amount - self.available[organization]

    @rule(organization=organizations, amount=amounts, won=st.booleans())
    def dispute(self, organization: str, amount: int, won: bool) -> None:
        owed = receivable_of(organization)
        self._post(Kind.DISPUTE, organization, owed, CARD, amount)
        if won:
            self._post(Kind.DISPUTE_WON, organization, CARD, owed, amount)

    @precondition(lambda self: self.posted)
    @rule(data=st.data())
    def the_same_again(self, data: st.DataObject) -> None:
        assert not self.run(post(self.session, data.draw(st.sampled_from(self.posted))))

    @rule(organization=organizations, wanted=st.sets(slots, min_size=1))
    def deploy(self, organization: str, wanted: set[int]) -> None:
        bare = [slot for slot in sorted(wanted) if not self._has_hour(organization, slot)]
        cost = len(bare) * PRICE
        admitted = self.run(_admit(self.session, organization, sorted(wanted)))
        assert admitted == (cost <= self.available[organization])
        if admitted:
            self._hold(organization, bare)

    @rule(organization=organizations, slot=slots)
    def scale_up(self, organization: str, slot: int) -> None:
        busy = sorted(self.paid[organization] | set(self.held[organization]))
        funded = self.run(_scale_up(self.session, organization, slot, busy))
        bare = not self._has_hour(organization, slot)
        assert bool(funded) == (not bare or self.available[organization] >= PRICE)
        if funded and bare:
            self._hold(organization, [slot])

    @rule(organization=organizations, ready=st.sets(slots, min_size=1))
    def become_ready(self, organization: str, ready: set[int]) -> None:
        for _ in range(2):  # the second time nothing is left to buy
            self.run(capture(self.session, f"ctr_{organization}", sorted(ready), HOUR, LEAD))
        for slot in ready & set(self.held[organization]):
            del self.held[organization][slot]
            self.paid[organization].add(slot)

    @rule(organization=organizations)
    def end_before_ready(self, organization: str) -> None:
        for _ in range(2):
            self.run(_release_all(self.session, organization))
        self.available[organization] += sum(self.held[organization].values())
        self.held[organization] = {}

    @rule(organization=organizations)
    def renew_all(self, organization: str) -> None:
        renewed = self.run(_renew_all(self.session, organization))
        self.available[organization] -= renewed * PRICE

    @invariant()
    def nothing_is_made_or_lost(self) -> None:
        if not hasattr(self, "savepoint"):
            return
        self.steps["steps"] += 1
        findings, balances = self.run(_look(self.session))
        assert findings == []
        for organization in ORGANIZATIONS:
            expected = Balance(self.available[organization], sum(self.held[organization].values()))
            assert balances[organization] == expected
            assert expected.available_microusd >= 0

    def _has_hour(self, organization: str, slot: int) -> bool:
        return slot in self.held[organization] or slot in self.paid[organization]

    def _hold(self, organization: str, wanted: list[int]) -> None:
        self.held[organization] |= dict.fromkeys(wanted, PRICE)
        self.available[organization] -= len(wanted) * PRICE

    def _posting(self, kind: Kind, organization: str, source: str, target: str, amount: int) -> Posting:
        return Posting(f"step:{len(self.posted)}", kind, organization, source, target, amount)

    def _post(self, kind: Kind, organization: str, source: str, target: str, amount: int) -> None:
        posting = self._posting(kind, organization, source, target, amount)
        assert self.run(post(self.session, posting))
        self.posted.append(posting)


def _buyer(organization: str) -> Buyer:
    return Buyer(organization, "prj", f"ctr_{organization}", "cpu-nano", PRICE)


async def _begin(session: AsyncSession) -> Any:
    return await session.begin_nested()


async def _refuse(session: AsyncSession, posting: Posting) -> None:
    """As an endpoint does it: what was written before the refusal is rolled back."""
    async with session.begin_nested():
        await post(session, posting)


async def _admit(session: AsyncSession, organization: str, wanted: list[int]) -> bool:
    found = await read_hours(session, f"ctr_{organization}")
    everywhere = Occupied(frozenset(range(4)))
    try:
        await hold_at_admission(session, _buyer(organization), wanted, everywhere, found)
    except InsufficientCreditError:
        return False
    return True


async def _scale_up(session: AsyncSession, organization: str, slot: int, busy: list[int]) -> list[int]:
    found = await read_hours(session, f"ctr_{organization}")
    return await cover_slots(session, _buyer(organization), [slot], Occupied(frozenset(busy)), found)


async def _release_all(session: AsyncSession, organization: str) -> None:
    found = await read_hours(session, f"ctr_{organization}")
    await release(session, [hour.id for hour in found.hours])


async def _renew_all(session: AsyncSession, organization: str) -> int:
    """How many were bought; those that were bought before are not due any more."""
    query = text(
        "SELECT id, slot, expires_at FROM hours h WHERE container_id = :container AND state = 'paid' "
        "AND NOT EXISTS (SELECT FROM hours n WHERE n.renews = h.id) ORDER BY slot"
    )
    bought = 0
    for hour_id, slot, expires_at in (
        await session.execute(query, {"container": f"ctr_{organization}"})
    ).all():
        row = HourRow(id=hour_id, slot=slot)
        await close(session, [hour_id])
        bought += await renew(session, row, _buyer(organization), expires_at, HOUR, LEAD) is None
    return bought


async def _look(session: AsyncSession) -> tuple[list[Any], dict[str, Balance]]:
    """The online check has a rule for each transaction; the sum over all of them is asked for as well."""
    rows = await session.execute(_LOOK)
    balances = {row[0]: Balance(row[1], row[2]) for row in rows}
    total = balances.pop("sum of all entries")
    assert total == Balance(0, 0)
    return await find_differences(session), {
        name: balances.get(name, Balance(0, 0)) for name in ORGANIZATIONS
    }


_LOOK = text(
    "SELECT organization_id, available_microusd, held_microusd FROM credit_accounts UNION ALL "
    "SELECT 'sum of all entries', coalesce(sum(amount_microusd), 0), 0 FROM ledger_entries"
)


@pytest.fixture
def ledger_dsn(postgres_dsn: str) -> Iterator[str]:
    async def execute(*statements: str) -> None:
        connection = await asyncpg.connect(postgres_dsn.replace("/moorage?", "/postgres?"))
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(execute("CREATE DATABASE test_ledger TEMPLATE moorage"))
    yield postgres_dsn.replace("/moorage?", "/test_ledger?")
    asyncio.run(execute("DROP DATABASE test_ledger WITH (FORCE)"))


@pytest.mark.long
def test_money_is_neither_made_nor_lost(ledger_dsn: str) -> None:
    with asyncio.Runner() as runner:
        engine = create_async_engine(
            ledger_dsn.replace("postgresql://", "postgresql+asyncpg://", 1), poolclass=NullPool
        )
        session = AsyncSession(engine, expire_on_commit=False, autoflush=False)
        runner.run(_open(session))
        Ledger.runner, Ledger.session = runner, session
        run_state_machine_as_test(
            Ledger,
            settings=settings(
                max_examples=SEQUENCES,
                stateful_step_count=STEPS,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
        runner.run(session.close())
        runner.run(engine.dispose())
    assert Ledger.steps["sequences"] >= SEQUENCES
    print(f"\n{Ledger.steps['sequences']} sequences, {Ledger.steps['steps']} steps, every sum zero")


async def _open(session: AsyncSession) -> None:
    await session.begin()
    for name in ORGANIZATIONS:
        await session.execute(text("INSERT INTO organizations (id, name) VALUES (:id, :id)"), {"id": name})

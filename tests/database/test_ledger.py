"""The ledger by itself: what the database refuses, what happens once, and what the online check sees."""

import asyncio
import re
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError

from moorage.billing.ledger_check import LedgerCheck
from moorage.entrypoints import migrate as migrate_module
from moorage.entrypoints.migrate import migrate
from moorage.kit.clock import VirtualClock
from moorage.kit.database import Database
from moorage.kit.errors import InsufficientCreditError, MoorageError
from moorage.ledger.accounts import BANK, Kind, credit_of
from moorage.ledger.check_repository import find_differences
from moorage.ledger.hours_repository import NO_HOURS, Buyer, hold_at_admission
from moorage.ledger.repository import Balance, Posting, balance_of, grant_initial_credit, post
from moorage.ledger.rules import Occupied

PRICE = 3_990_000


@pytest.fixture
async def organization(database: Database) -> str:
    async with database.transaction() as session:
        await session.execute(text("INSERT INTO organizations (id, name) VALUES ('org_a', 'Acme')"))
        await grant_initial_credit(session, "org_a", "usr_a")
    return "org_a"


async def test_initial_credit_comes_once_per_person(database: Database, organization: str) -> None:
    async with database.transaction() as session:
        await session.execute(text("INSERT INTO organizations (id, name) VALUES ('org_b', 'Second')"))
        await grant_initial_credit(session, "org_b", "usr_a")
        await grant_initial_credit(session, organization, "usr_a")
        assert await balance_of(session, organization) == Balance(20_000_000, 0)
        assert await balance_of(session, "org_b") == Balance(0, 0)


@pytest.mark.parametrize("table", ["ledger_entries", "ledger_transactions"])
@pytest.mark.parametrize(
    "change",
    ["UPDATE {} SET {} = {}", "DELETE FROM {}", "TRUNCATE {}"],
    ids=["update", "delete", "truncate"],
)
@pytest.mark.parametrize("granted", [False, True], ids=["without the right", "with the right"])
async def test_what_is_booked_stays(
    database: Database, organization: str, table: str, change: str, granted: bool
) -> None:
    """The application's role lacks the right; and where somebody gave it back, the trigger refuses."""
    column = "account" if table == "ledger_entries" else "kind"
    if granted:
        async with database.transaction() as session:
            await session.execute(text(f"GRANT ALL ON {table} TO CURRENT_USER"))
    with pytest.raises(DBAPIError) as refused:
        async with database.transaction() as session:
            await session.execute(text(change.format(table, column, column)))
    assert ("written once" if granted else "permission denied") in str(refused.value.orig)


async def test_entries_that_do_not_add_up_are_refused(database: Database, organization: str) -> None:
    with pytest.raises(IntegrityError, match="add up to zero"):
        async with database.transaction() as session:
            await session.execute(text("INSERT INTO ledger_entries VALUES ('txn_x', 'credit:org_a', 5)"))


async def test_a_key_is_booked_once_by_racing_transactions(database: Database, organization: str) -> None:
    posting = Posting("wire:1", Kind.BANK_TRANSFER, organization, BANK, credit_of(organization), 7)

    async def once() -> bool:
        async with database.transaction() as session:
            return await post(session, posting)

    assert sorted(await asyncio.gather(*(once() for _ in range(8)))) == [False] * 7 + [True]
    async with database.transaction() as session:
        assert (await balance_of(session, organization)).available_microusd == 20_000_007


async def test_racing_admissions_cannot_overspend(database: Database, organization: str) -> None:
    """Credit for 5 hours, 30 containers that want one each at the same moment."""

    async def deploy(number: int) -> int | None:
        buyer = Buyer(organization, "prj", f"ctr_{number}", "h100-80gb", PRICE)
        try:
            async with database.transaction() as session:
                await hold_at_admission(session, buyer, [0], Occupied(), NO_HOURS)
        except InsufficientCreditError as refused:
            return refused.missing_microusd
        return None

    answers = await asyncio.gather(*(deploy(number) for number in range(30)))
    left = 20_000_000 - 5 * PRICE
    assert sorted(answers, key=str) == [PRICE - left] * 25 + [None] * 5
    async with database.transaction() as session:
        assert await balance_of(session, organization) == Balance(left, 5 * PRICE)
        assert await find_differences(session) == []


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        ("UPDATE credit_accounts SET available_microusd = available_microusd + 1", "a balance is the sum"),
        ("UPDATE credit_accounts SET held_microusd = 1, available_microusd = available_microusd - 1", "what is held"),
        (
            "INSERT INTO ledger_entries VALUES ('txn_lost', 'usage', 1), ('txn_lost', 'card', -1)",
            "every entry has its transaction",
        ),
    ],
)  # fmt: skip
async def test_the_check_sees_damage(database: Database, organization: str, damage: str, rule: str) -> None:
    async with database.transaction() as session:
        assert await find_differences(session) == []
        await session.execute(text(damage))
        found = await find_differences(session)
    assert any(one.rule.startswith(rule) and abs(one.difference_microusd) == 1 for one in found), found


async def test_the_hourly_check_complains_until_it_is_mended(database: Database, organization: str) -> None:
    clock = VirtualClock()
    check = LedgerCheck(database, clock)
    assert (await check.due(1)).next_in_s == 3600
    async with database.transaction() as session:
        await session.execute(text("UPDATE credit_accounts SET available_microusd = available_microusd + 1"))
    await clock.advance(3600)
    for _ in range(2):
        with pytest.raises(
            MoorageError,
            match=r"org_a it is not true that a balance is the sum of its entries \(1 microusd\)",
        ):
            await check.due(1)
    async with database.transaction() as session:
        await session.execute(text("UPDATE credit_accounts SET available_microusd = available_microusd - 1"))
    await clock.advance(60)
    assert list((await check.due(1)).keys) == []


def revision_before_the_ledger() -> str:
    (path,) = (Path(migrate_module.__file__).parent / "migrations/versions").glob("*_the_ledger.py")
    found = re.search(r'^down_revision.*"(.+)"', path.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


async def test_the_migration_goes_down_and_up_and_credits_who_was_there(
    database: Database, database_dsn: str
) -> None:
    await migrate(database_dsn, revision_before_the_ledger())
    async with database.transaction() as session:
        await session.execute(text("INSERT INTO organizations (id, name) VALUES ('org_a', 'Acme')"))
        await session.execute(
            text("INSERT INTO users (id, email, is_operator) VALUES ('usr_a', 'a@b.example', false)")
        )
        await session.execute(
            text(
                "INSERT INTO organization_members (organization_id, user_id, role) VALUES ('org_a', 'usr_a', 'admin')"
            )
        )
    await migrate(database_dsn)
    async with database.transaction() as session:
        assert await balance_of(session, "org_a") == Balance(20_000_000, 0)
        await grant_initial_credit(session, "org_a", "usr_a")
        assert await balance_of(session, "org_a") == Balance(20_000_000, 0)
        assert await find_differences(session) == []

"""Credit from before it was written down where it came from counts as given, and the books agree after going back and forth."""

from datetime import timedelta

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from earnings_support import PRICE, Market
from sqlalchemy import Connection

from moorage.entrypoints.migrate import migrate
from moorage.entrypoints.tables import metadata
from moorage.kit.database import Database

OURS = {
    *(
        "served_spans",
        "machine_voids",
        "credit_lots",
        "hour_funds",
        "hour_moves",
        "credit_withdrawals",
        "earnings",
    ),
    *("payouts", "payout_accounts", "payout_account_hashes", "card_fingerprints", "past_memberships"),
    *("machines", "hours"),
}


async def test_there_and_back(database: Database, database_dsn: str) -> None:
    market = Market(database)
    buyer, owner = await market.organization(), await market.organization()
    await market.transfer(buyer, 3 * PRICE)
    await market.buy_hour(buyer, await market.now() - timedelta(days=2))
    await migrate(database_dsn, "0087")
    await migrate(database_dsn)
    assert await market.differences() == []
    lots = await market.rows("SELECT source, amount_microusd, spent_microusd FROM credit_lots")
    assert lots == [("given", 2 * PRICE, 0)]
    await market.served_hour(buyer, owner)
    await market.work()
    assert (await market.balance(owner)).held_microusd == 0
    assert await market.differences() == []


async def test_the_tables_are_as_the_models_say(database: Database) -> None:
    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return [one for one in compare_metadata(context, metadata) if any(name in repr(one) for name in OURS)]

    async with database.transaction() as session:
        found = await (await session.connection()).run_sync(differences)
    assert found == []

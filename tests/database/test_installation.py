"""The installation's id: random, or named before there is a database."""

import pytest

from moorage.kit.database import Database
from moorage.kit.errors import SettingsError
from moorage.kit.installation import ensure_installation_id


async def test_a_named_one_is_taken_and_kept(database: Database) -> None:
    async with database.transaction() as session:
        assert await ensure_installation_id(session, "ins_named1234") == "ins_named1234"
    async with database.transaction() as session:
        assert await ensure_installation_id(session) == "ins_named1234"
        assert await ensure_installation_id(session, "ins_named1234") == "ins_named1234"


async def test_another_ones_database_is_refused(database: Database) -> None:
    async with database.transaction() as session:
        found = await ensure_installation_id(session)
        with pytest.raises(SettingsError, match=found):
            await ensure_installation_id(session, "ins_named1234")

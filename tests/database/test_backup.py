"""Data survives upgrades and backups: down and up again on a filled database; dump, restore, go on."""

import os
from datetime import datetime
from pathlib import Path

import asyncpg
import pytest
from api_support import Api
from api_support import api_fixture as api_fixture
from log_support import Printer, new_world, numbered
from pydantic import SecretStr
from sqlalchemy import text
from test_logs_collection import follower

from moorage.entrypoints.backup import backup, last_backup_at, restore
from moorage.entrypoints.migrate import migrate, migrate_installation
from moorage.kit.database import Database
from moorage.kit.errors import SetupError
from moorage.kit.postgres import database_dsn as database_dsn_of
from moorage.kit.settings import Settings


async def fill(database: Database) -> str:
    """People, projects, containers, replicas and logs; the id of a replica whose lines are there."""
    world = await new_world(database)
    source = await world.new_replica(await world.new_container(), Printer(numbered(500)))
    await follower(world, source).run()
    return source.replica_id


async def contents(dsn: str, columns_of: dict[str, list[str]] | None = None) -> dict[str, list[str]]:
    """Every row of every table, as text; of the columns that are asked for, if any are."""
    connection = await asyncpg.connect(dsn)
    columns = columns_of or await columns_by_table(connection)
    found = {
        table: [
            row[0]
            for row in await connection.fetch(f"SELECT ({', '.join(names)})::text FROM {table} ORDER BY 1")
        ]
        for table, names in columns.items()
    }
    await connection.close()
    return found


async def columns_by_table(connection: asyncpg.Connection) -> dict[str, list[str]]:
    rows = await connection.fetch(
        "SELECT table_name, column_name FROM information_schema.columns JOIN pg_class ON relname = table_name"
        " WHERE table_schema = 'public' AND NOT relispartition AND table_name <> 'alembic_version'"
        " ORDER BY table_name, ordinal_position"
    )
    found: dict[str, list[str]] = {}
    for table, column in rows:
        found.setdefault(table, []).append(f'"{column}"')
    return found


async def known_backup_at(settings: Settings) -> datetime | None:
    database = Database(database_dsn_of(settings), pool_size=2)
    try:
        async with database.reading() as session:
            return await last_backup_at(session, settings)
    finally:
        await database.close()


async def test_down_and_up_again_on_a_filled_database(api: Api, database_dsn: str) -> None:
    user_id, _ = await api.new_person("ada@example.com")
    project_id = await api.new_project(
        await api.new_organization("acme", {user_id: "admin"}), "main", user_id
    )
    await api.new_container(project_id, "chat")
    await api.new_key(project_id, "manage")
    await fill(api.database)
    await api.database.close()
    before = await contents(database_dsn)
    await migrate(database_dsn, "0002")
    connection = await asyncpg.connect(database_dsn)
    of_0002 = await columns_by_table(connection)
    await connection.close()
    there = await contents(database_dsn, of_0002)
    rows = sum(map(len, there.values()))
    assert rows > 500
    assert {table: len(found) for table, found in there.items()} == {
        table: len(before[table]) for table in there
    }
    await migrate(database_dsn)
    assert await contents(database_dsn, of_0002) == there
    print(f"{rows} rows in {len(there)} tables went down and up again, 0 lost")


@pytest.mark.long
async def test_a_migration_leaves_the_database_as_it_was_in_a_file(
    database: Database, database_dsn: str, postgres_dsn: str, short_folder: Path
) -> None:
    await database.close()
    settings = Settings(home=short_folder, database_dsn=SecretStr(database_dsn))
    said: list[str] = []
    await migrate_installation(settings, said.append)
    assert said == [], "nothing is new, so nothing is written"
    dumps = short_folder / "dumps"
    for _ in range(5):
        await migrate(database_dsn, "0029")
        before = await contents(database_dsn)
        await migrate_installation(settings, said.append)
    files = sorted(dumps.glob("before-0029-*.dump"), key=lambda one: one.stat().st_mtime)
    assert 1 <= len(files) <= 3, "the last ones are kept"
    assert files[-1].stat().st_mode & 0o777 == 0o600
    assert str(files[-1]) in said[-1]
    assert await known_backup_at(settings) is None, "on the same disk, it is no backup"
    admin = await asyncpg.connect(postgres_dsn.replace("/moorage?", "/postgres?"))
    await admin.execute("CREATE DATABASE as_it_was")
    try:
        dsn = postgres_dsn.replace("/moorage?", "/as_it_was?")
        await restore(Settings(home=short_folder, database_dsn=SecretStr(dsn)), files[-1])
        assert await contents(dsn) == before
    finally:
        await admin.execute("DROP DATABASE as_it_was WITH (FORCE)")
        await admin.close()
    # Where it cannot be written, nothing is changed.
    await migrate(database_dsn, "0029")
    for file in dumps.iterdir():
        file.unlink()
    dumps.rmdir()
    dumps.write_text("in the way")
    with pytest.raises((SetupError, FileExistsError)):
        await migrate_installation(settings, said.append)
    assert await contents(database_dsn) == before


async def test_dump_restore_and_go_on(
    database: Database, database_dsn: str, postgres_dsn: str, short_folder: Path
) -> None:
    replica_id = await fill(database)
    await database.close()
    dump = short_folder / "moorage.dump"
    await backup(Settings(home=short_folder, database_dsn=SecretStr(database_dsn)), dump)
    assert dump.stat().st_mode & 0o777 == 0o600
    admin = await asyncpg.connect(postgres_dsn.replace("/moorage?", "/postgres?"))
    await admin.execute("CREATE DATABASE restored")
    restored_dsn = postgres_dsn.replace("/moorage?", "/restored?")
    restored = Database(restored_dsn)
    try:
        settings = Settings(home=short_folder, database_dsn=SecretStr(restored_dsn))
        await restore(settings, dump)
        await migrate(restored_dsn)
        before = await contents(database_dsn)
        assert await contents(restored_dsn) == before
        with pytest.raises(SetupError, match="database is not empty"):
            await restore(settings, dump)
        # It goes on: the cursor knows which lines are there, and new ones find their day.
        async with restored.transaction() as session:
            await session.execute(text("UPDATE leases SET expires_at = now()"))
        world = await new_world(restored)
        source = await world.new_replica(await world.new_container(), Printer(numbered(10)))
        await follower(world, source).run()
        assert len(await world.texts(replica_id)) == 500
        assert len(await world.texts(source.replica_id)) == 10
        print(f"{sum(map(len, before.values()))} rows in {len(before)} tables restored, 0 lost")
    finally:
        await restored.close()
        await admin.execute("DROP DATABASE restored WITH (FORCE)")
        await admin.close()


async def test_a_dump_that_fails_leaves_no_file(short_folder: Path, postgres_dsn: str) -> None:
    nowhere = postgres_dsn.replace("/moorage?", "/nowhere?")
    with pytest.raises(SetupError, match="nowhere"):
        await backup(Settings(home=short_folder, database_dsn=SecretStr(nowhere)), short_folder / "dump")
    assert not [name for name in os.listdir(short_folder) if name.startswith("dump")]


async def test_every_copy_knows_of_a_backup(api: Api, tmp_path: Path, short_folder: Path) -> None:
    """Whichever host it ran on: the operator may ask any of the APIs."""
    dsn = SecretStr(api.database.dsn)
    here, elsewhere = (Settings(home=home, database_dsn=dsn) for home in (short_folder, tmp_path))
    assert await known_backup_at(elsewhere) is None
    await backup(here, short_folder / "all.dump")
    assert await known_backup_at(elsewhere) is not None

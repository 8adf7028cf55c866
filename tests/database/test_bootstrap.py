"""`moor bootstrap` and what roles do without it: real processes on a database that has nothing."""

import asyncio
import os
import sys
from pathlib import Path

import asyncpg
import pytest
from pydantic import SecretStr
from reconciler_support import eventually

from moorage.entrypoints.bootstrap import make_keys
from moorage.entrypoints.bootstrap_job import bootstrap_installation
from moorage.entrypoints.migrate import migrate_installation
from moorage.entrypoints.schema_repository import EXPECTED_VERSION, OlderSchemaError, wait_for_schema
from moorage.kit.database import Database
from moorage.kit.dsn import Dsn, parse_dsn
from moorage.kit.errors import SetupError
from moorage.kit.settings import Settings
from tests.ports import free_port
from tests.postgres_tls import postgres_front


@pytest.fixture(name="empty_dsn")
async def empty_dsn_fixture(database_dsn: str) -> str:
    connection = await asyncpg.connect(database_dsn)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()
    return database_dsn


def settings_of(home: Path, dsn: str) -> Settings:
    secret, operator = home / "keys/secret-keys", home / "keys/operator-key"
    if not secret.exists():
        make_keys(home / "keys")
    return Settings(
        home=home,
        database_dsn=SecretStr(dsn),
        keys="mounted",
        secret_keys_path=secret,
        operator_key_path=operator,
    )


async def job(settings: Settings, *arguments: str) -> tuple[int, str]:
    assert settings.database_dsn is not None
    environment = {
        **os.environ,
        "MOORAGE_HOME": str(settings.home),
        "MOORAGE_DATABASE_DSN": settings.database_dsn.get_secret_value(),
        "MOORAGE_KEYS": "mounted",
        "MOORAGE_SECRET_KEYS_PATH": str(settings.key_file),
        "MOORAGE_OPERATOR_KEY_PATH": str(settings.operator_key_file),
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "moorage.entrypoints.moor", *arguments),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(120):
        output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


@pytest.mark.long
async def test_two_at_once_then_again(empty_dsn: str, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, empty_dsn)
    both = await asyncio.gather(job(settings, "bootstrap"), job(settings, "bootstrap"))
    assert [code for code, _ in both] == [0, 0], both
    made = [output for _, output in both if "operator operator@localhost was made" in output]
    assert len(made) == 1, both
    assert all("nothing was missing" in output for _, output in both if output not in made)
    connection = await asyncpg.connect(empty_dsn)
    counts = "SELECT (SELECT count(*) FROM installation), (SELECT count(*) FROM users WHERE is_operator)"
    assert tuple(await connection.fetchrow(counts)) == (1, 1)
    assert await connection.fetchval("SELECT version_num FROM alembic_version") == EXPECTED_VERSION
    before = await connection.fetchrow("SELECT * FROM installation")
    said: list[str] = []
    await bootstrap_installation(settings, said.append, wait_s=5, dump_first=True, accept=False)
    assert said[-2:] == [
        f"Tables: already of version {EXPECTED_VERSION}.",
        f"Installation {before['id']}: nothing was missing.",
    ]
    assert await connection.fetchrow("SELECT * FROM installation") == before
    await connection.close()


@pytest.mark.long
async def test_it_waits_for_the_database_and_not_for_ever(empty_dsn: str, tmp_path: Path) -> None:
    one, port = parse_dsn(empty_dsn), free_port()
    by_port = Dsn(one.user, one.password, one.database, (("127.0.0.1", port),), {}).text()
    settings, said = settings_of(tmp_path, by_port), []
    with pytest.raises(SetupError, match="did not answer within 1 s"):
        await bootstrap_installation(settings, said.append, wait_s=1, dump_first=False, accept=False)
    waiting = asyncio.create_task(
        bootstrap_installation(settings, said.append, wait_s=60, dump_first=False, accept=False)
    )

    async def waits() -> bool:
        return "Waiting for the database, 60 s at most …" in said

    await eventually(waits, "it waits")
    async with postgres_front(Path(one.hosts[0][0]), None, port=port):
        await asyncio.wait_for(waiting, 60)
    wrong = Dsn(one.user, "wrong", one.database, one.hosts, {}).text()
    with pytest.raises(
        SetupError, match="The database refused the connection: password authentication failed"
    ):
        await bootstrap_installation(
            settings_of(tmp_path, wrong), said.append, wait_s=60, dump_first=False, accept=False
        )


@pytest.mark.long
async def test_roles_never_migrate_and_say_what_is_missing(empty_dsn: str, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, empty_dsn)
    ended = await asyncio.gather(*(job(settings, "serve", "--role", role) for role in ("api", "controller")))
    for code, output in ended:
        assert (code, "has no Moorage tables yet. Run `moor bootstrap`" in output) == (2, True), output
    connection = await asyncpg.connect(empty_dsn)
    assert await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == 0
    await connection.close()


async def test_a_role_waits_for_the_job(empty_dsn: str, tmp_path: Path) -> None:
    database = Database(empty_dsn, pool_size=2)
    with pytest.raises(OlderSchemaError):
        await wait_for_schema(database, 0)
    waiting = asyncio.create_task(wait_for_schema(database, 60))
    settings = settings_of(tmp_path, empty_dsn)
    await bootstrap_installation(settings, lambda _: None, wait_s=5, dump_first=False, accept=False)
    await asyncio.wait_for(waiting, 30)
    # The past is waited for, the future is not; and nobody migrates it.
    connection = await asyncpg.connect(empty_dsn)
    await connection.execute("UPDATE alembic_version SET version_num = '9999'")
    await connection.execute("COMMENT ON TABLE alembic_version IS NULL")
    with pytest.raises(SetupError, match="have version 9999, which is newer than"):
        await asyncio.wait_for(wait_for_schema(database, 60), 5)
    with pytest.raises(SetupError, match=r"9999, which is newer than.*Nothing was changed"):
        await migrate_installation(settings, lambda _: None)
    await connection.close()
    await database.close()


async def test_code_runs_on_newer_tables_as_long_as_they_serve_it(database_dsn: str, tmp_path: Path) -> None:
    settings, database = settings_of(tmp_path, database_dsn), Database(database_dsn, pool_size=2)
    connection = await asyncpg.connect(database_dsn)
    await connection.execute("UPDATE alembic_version SET version_num = '9999'")
    # As the migration to 9999 left it: nothing was taken away since.
    await wait_for_schema(database, 0)
    assert not await migrate_installation(settings, lambda _: None), "it is not its business"
    assert await connection.fetchval("SELECT version_num FROM alembic_version") == "9999"
    # One that took away what this code uses.
    await connection.execute("COMMENT ON TABLE alembic_version IS '9998'")
    with pytest.raises(SetupError, match="have version 9999, which is newer than"):
        await wait_for_schema(database, 0)
    with pytest.raises(SetupError, match=r"9999, which is newer than.*Nothing was changed"):
        await migrate_installation(settings, lambda _: None)
    await connection.close()
    await database.close()

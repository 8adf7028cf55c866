"""Real parts for every test: one Postgres and one Docker engine for the session, a database of its own for each test."""

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import hypothesis
import pytest

from moorage.entrypoints.migrate import migrate
from moorage.kit.database import Database
from moorage.kit.home import prepare_home
from moorage.kit.logging import configure_logging
from moorage.kit.postgres import EmbeddedPostgres
from moorage.kit.settings import Settings
from tests.folders import folder_for_a_database

# So that what it compared is told.
pytest.register_assert_rewrite("tests.engine.contract")

pytest_plugins = [
    "tests.clusters",
    "tests.engine_fixtures",
    "tests.lanes",
    "tests.lock_order",
    "tests.lease_guard",
    "tests.quiet",
]

_names = itertools.count(1)

# How long an example takes says something about the machine, not about the code.
hypothesis.settings.register_profile("moorage", deadline=None)
hypothesis.settings.load_profile("moorage")

# As in production; structlog's own default renders tracebacks with every local variable, which takes seconds.
configure_logging("info", as_json=True)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """pytest's own temporary folders are too deep for a Unix socket."""
    folder = Path(tempfile.mkdtemp(prefix="moor-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """A server whose database is migrated and serves as the template for every test's own."""
    home = folder_for_a_database()
    settings = Settings(home=home)
    prepare_home(settings)
    server = EmbeddedPostgres(settings, options=("fsync=off", "max_connections=300"))

    async def start() -> None:
        await server.start()
        await migrate(server.dsn)
        superuser = await asyncpg.connect(server._dsn_of("postgres", "postgres"))
        await superuser.execute("ALTER ROLE moorage CREATEDB")
        # Or a test's database cannot be dropped while the server happens to vacuum it.
        await superuser.execute("GRANT pg_signal_backend TO moorage")
        await superuser.close()

    asyncio.run(start())
    yield server.dsn
    asyncio.run(server.stop())
    shutil.rmtree(home)


@pytest.fixture
async def database_dsn(postgres_dsn: str) -> AsyncIterator[str]:
    """The DSN of a migrated, empty database that is this test's alone."""
    name = f"test_{next(_names)}"
    admin_dsn = postgres_dsn.replace("/moorage?", "/postgres?")
    connection = await asyncpg.connect(admin_dsn)
    await connection.execute(f"CREATE DATABASE {name} TEMPLATE moorage STRATEGY FILE_COPY")
    yield postgres_dsn.replace("/moorage?", f"/{name}?")
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


@pytest.fixture
async def database(database_dsn: str) -> AsyncIterator[Database]:
    opened = Database(database_dsn, pool_size=5)
    yield opened
    await opened.close()

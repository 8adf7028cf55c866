"""The Postgres of the simulation: real, in memory, and with a clock that the simulation sets.

`now()` and `clock_timestamp()` are found in the schema `sim` before Postgres's own, because the search path names
`pg_catalog` behind it. That schema is there before the first migration, so defaults and triggers use its clock as well.
The time lies in a sequence: setting one takes effect at once, outside of any transaction.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import asyncpg

from moorage.entrypoints.migrate import migrate
from moorage.kit.home import prepare_home
from moorage.kit.postgres import EmbeddedPostgres
from moorage.kit.settings import Settings
from tests.folders import folder_for_a_database
from tests.simulation.backends import Backends
from tests.simulation.plain import PlainConnection

START = datetime(2026, 3, 2, 8, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000
_OPTIONS = (
    "fsync=off",
    "full_page_writes=off",
    "synchronous_commit=off",
    "autovacuum=off",  # Statistics change plans, and plans the order of rows.
    "deadlock_timeout=1h",  # Whom it ends would depend on the real clock: `wire.py` finds circles itself.
    "jit=off",
    "plan_cache_mode=force_generic_plan",  # Otherwise how often a statement ran before decides about its plan.
    "max_parallel_workers_per_gather=0",  # Workers hand their rows on as they find them.
    "synchronize_seqscans=off",  # Where a scan begins would depend on where others are, also on those of the seed before.
    "shared_buffers=64MB",
    "wal_level=minimal",
    "max_wal_senders=0",
)
_CLOCK = f"""
CREATE SCHEMA sim;
CREATE SEQUENCE sim.clock;
SELECT setval('sim.clock', {START_US});
CREATE FUNCTION sim.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN timestamptz 'epoch' + (SELECT last_value FROM sim.clock) * interval '1 microsecond';
END $$;
CREATE FUNCTION sim.now() RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    began text := current_setting('sim.began', true);
BEGIN
    IF began IS NULL OR began = '' THEN
        began := set_config('sim.began', (SELECT last_value::text FROM sim.clock), true);
    END IF;
    RETURN timestamptz 'epoch' + began::bigint * interval '1 microsecond';
END $$;
GRANT USAGE ON SCHEMA sim TO PUBLIC;
GRANT SELECT, UPDATE ON sim.clock TO PUBLIC;
ALTER DATABASE moorage SET search_path = public, sim, pg_catalog;
"""


@dataclass(frozen=True)
class Server:
    dsn: str
    socket_path: str
    partitions: frozenset[str]
    """Those of the migrations."""
    backends: Backends

    def plain(self, user: str = "postgres") -> PlainConnection:
        return PlainConnection(self.socket_path, user, "moorage")

    def empty(self, connection: PlainConnection) -> None:
        """As after the migrations: new files for the tables that hold something, so that rows come in the same order
        whatever ran before."""
        for (partition,) in connection.query(_PARTITIONS):
            if partition not in self.partitions:
                connection.query(f'DROP TABLE "{partition}"')
        filled = [
            table
            for (table,) in connection.query(TABLES)
            if table != "alembic_version" and connection.query(f'SELECT FROM "{table}" LIMIT 1')
        ]
        if filled:
            names = ", ".join(f'"{table}"' for table in filled)
            connection.query("SET session_replication_role = replica")
            connection.query(f"TRUNCATE {names} RESTART IDENTITY CASCADE")


TABLES = """SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relnamespace = 'public'::regnamespace
AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1"""


_PARTITIONS = """SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relnamespace = 'public'::regnamespace
AND c.relkind = 'r' AND c.relispartition ORDER BY 1"""


@contextlib.contextmanager
def postgres() -> Iterator[Server]:
    home = folder_for_a_database()
    settings = Settings(home=home)
    prepare_home(settings)
    server = EmbeddedPostgres(settings, options=_OPTIONS)
    asyncio.run(server.start())
    path = str(settings.run_dir / "postgres" / ".s.PGSQL.5432")
    try:
        _trust_everybody(home)
        asyncio.run(_prepare(server))
        plain = PlainConnection(path, "postgres", "moorage")
        partitions = frozenset(name for (name,) in plain.query(_PARTITIONS) if name is not None)
        plain.close()
        backends = Backends(path)
        try:
            yield Server(server.dsn, path, partitions, backends)
            backends.close()
        finally:
            backends.let_all_go_on()
    finally:
        asyncio.run(server.stop())
        shutil.rmtree(home)


def _trust_everybody(home: Path) -> None:
    """Or each new connection would spend milliseconds on a password."""
    for file in home.rglob("pg_hba.conf"):
        file.write_text("local all all trust\n")


async def _prepare(server: EmbeddedPostgres) -> None:
    superuser = await asyncpg.connect(server._dsn_of("postgres", "moorage"))
    await superuser.execute("SELECT pg_reload_conf()")
    await superuser.execute(_CLOCK)
    await superuser.close()
    await migrate(server.dsn)

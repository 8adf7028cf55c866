"""`moor migrate`: bring the database to this version's tables, one process at a time."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from moorage.entrypoints.backup import dump
from moorage.entrypoints.schema_repository import (
    EXPECTED_VERSION,
    oldest_served,
    serves_this,
    write_oldest_served,
)
from moorage.kit.clock import system_clock
from moorage.kit.database import unpooled_engine
from moorage.kit.errors import SetupError
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings

DUMPS = "dumps"
"""In the data folder."""
KEPT_DUMPS = 3
_MIGRATION_LOCK = 0x6D6F6F72_6D696772
TABLE_WITHIN_S = 3.0
TRIES = 20
_PAUSE_S = 1.0
_TABLE_IN_USE = ("55P03", "40P01")
"""lock_not_available, deadlock_detected"""


async def migrate_installation(
    settings: Settings, say: Callable[[str], None], *, dump_first: bool = True
) -> bool:
    """To this version, with a dump of the database as it was: whatever a migration does, there is a way back. Whether anything was
    to be done."""
    dsn = database_dsn(settings)
    before, oldest = await _revision(dsn)
    if before == EXPECTED_VERSION:
        return False
    if before is not None and before > EXPECTED_VERSION:
        if serves_this(oldest):
            return False
        raise SetupError(
            f"The database's tables have version {before}, which is newer than the {EXPECTED_VERSION} of "
            "this version of Moorage. Nothing was changed."
        )
    if before is not None and dump_first:
        file = settings.home / DUMPS / f"before-{before}-{system_clock.now():%Y%m%dT%H%M%SZ}.dump"
        say(f"The database is of an earlier version. Writing it to {file} before changing it …")
        await _dump(settings, file)
    await migrate(dsn)
    return True


async def _dump(settings: Settings, file: Path) -> None:
    await asyncio.to_thread(file.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
    try:
        await dump(settings, file)
    except SetupError as exc:
        raise SetupError(
            f"{exc.message} Nothing was changed. Make room, or dump the database yourself, then run `moor migrate --without-dump`."
        ) from exc
    await asyncio.to_thread(remove_old_dumps, file.parent)


def remove_old_dumps(folder: Path) -> None:
    for broken_off in folder.glob("before-*.dump.new"):
        broken_off.unlink()
    for old in sorted(folder.glob("before-*.dump"), key=lambda one: one.stat().st_mtime)[:-KEPT_DUMPS]:
        old.unlink()


async def _revision(dsn: str) -> tuple[str | None, str | None]:
    """Of the tables, None where there are none; and of the oldest code that they serve."""
    engine = unpooled_engine(dsn)
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(
                lambda one: (MigrationContext.configure(one).get_current_revision(), oldest_served(one))
            )
    finally:
        await engine.dispose()


async def migrate(
    dsn: str, revision: str = "head", *, table_within_s: float = TABLE_WITHIN_S, tries: int = TRIES
) -> None:
    """Under an advisory lock, so that roles starting together do not race; a no-op when nothing is new. Whoever waits for a table is
    waited for by everybody who comes after: so it gives up soon, lets them pass, and tries again."""
    engine = unpooled_engine(dsn)
    try:
        for left in reversed(range(tries)):
            try:
                async with engine.begin() as connection:
                    await connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
                    await connection.execute(text(f"SET LOCAL lock_timeout = {round(table_within_s * 1000)}"))
                    await connection.run_sync(_run, revision)
                    return
            except DBAPIError as exc:
                if getattr(exc.orig, "sqlstate", None) not in _TABLE_IN_USE:
                    raise
                if not left:
                    raise SetupError(
                        "A table could not be changed because it was in constant use, perhaps by a backup "
                        "or a session of your own (`SELECT pid, query FROM pg_stat_activity`). Nothing was "
                        "changed. Run this again once that has ended."
                    ) from exc
            await system_clock.sleep(_PAUSE_S)
    finally:
        await engine.dispose()


def _run(connection: Connection, revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    current = MigrationContext.configure(connection).get_current_revision()
    script = ScriptDirectory.from_config(config)
    going_down = revision != "head" and any(
        entry.revision == revision for entry in script.iterate_revisions(current, "base") if current
    )
    if going_down and revision != current:
        command.downgrade(config, revision)
    else:
        command.upgrade(config, revision)
        if revision == "head":
            write_oldest_served(connection)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config

"""`moor migrate`: bring the database to this version's tables, one process at a time."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

_MIGRATION_LOCK = 0x6D6F6F72_6D696772


async def migrate(dsn: str, revision: str = "head") -> None:
    """Under an advisory lock, so that roles starting together do not race; a no-op when nothing is new."""
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://", 1), poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
            await connection.run_sync(_run, revision)
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


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config

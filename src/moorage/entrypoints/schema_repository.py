"""Which version the database's tables have, and which one this code was written for. Roles never change it.

Migrations only expand, so code of a version before runs on newer tables, until a migration takes away what it used. Which code the
tables still serve is written beside their version (`write_oldest_served`), because the older code cannot know.
"""

import asyncio
from pathlib import Path

import structlog
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.clock import system_clock
from moorage.kit.database import REFUSED, Database
from moorage.kit.errors import SetupError

log = structlog.get_logger()

_VERSIONS = Path(__file__).parent / "migrations" / "versions"
EXPECTED_VERSION = max(file.name.partition("_")[0] for file in _VERSIONS.glob("[0-9]*.py"))
"""By the names of the files: to load them all takes longer than a role takes to start. A test compares."""
OLDEST_SERVED = "0100"
"""The oldest version of the tables whose code runs on these. A migration that takes away or renames what older code uses, or asks of
its writes what it does not know, sets this to its own version; every other one leaves it."""
_OLDEST_SERVED = text("SELECT obj_description(to_regclass('alembic_version'), 'pg_class')")
_LOOK_EVERY_S = 0.5
_SAY_EVERY_S = 10.0
_ANSWERS_WITHIN_S = 3.0


class OlderSchemaError(SetupError):
    """It is still to be brought to this version, by a job that may be under way."""


async def require_expected_schema(session: AsyncSession) -> None:
    """On tables from the past, or on newer ones that no longer serve it, this code would fail somewhere, or write what another version
    cannot read."""
    found = await schema_version(session)
    if found is None:
        raise OlderSchemaError("The database has no Moorage tables yet. Run `moor bootstrap` to create them.")
    if found < EXPECTED_VERSION:
        raise OlderSchemaError(
            f"The database's tables have version {found}, and this version of Moorage needs "
            f"{EXPECTED_VERSION}. Run `moor migrate` with this version."
        )
    if found > EXPECTED_VERSION and not serves_this(await session.scalar(_OLDEST_SERVED)):
        raise SetupError(
            f"The database's tables have version {found}, which is newer than the {EXPECTED_VERSION} of this "
            "version of Moorage. Start the version that ran `moor migrate`."
        )


def serves_this(oldest: str | None) -> bool:
    """`oldest`: as the tables say; None where they say nothing."""
    return oldest is not None and oldest <= EXPECTED_VERSION


def oldest_served(connection: Connection) -> str | None:
    found: str | None = connection.execute(_OLDEST_SERVED).scalar_one_or_none()
    return found


def write_oldest_served(connection: Connection) -> None:
    """As a comment on the table that has their version: it changes with that, and a dump has it too."""
    connection.execute(text(f"COMMENT ON TABLE alembic_version IS '{OLDEST_SERVED}'"))


async def schema_version(session: AsyncSession) -> str | None:
    """None: there are no tables."""
    there = (await session.execute(text("SELECT to_regclass('alembic_version') IS NOT NULL"))).scalar_one()
    if not there:
        return None
    found: str | None = (
        await session.execute(text("SELECT version_num FROM alembic_version"))
    ).scalar_one_or_none()
    return found


async def tell_of_other_schema(database: Database) -> None:
    """For a gateway, which serves on without any database: what it stores and reads may fail, and this says why."""
    async with database.reading() as session:
        try:
            await require_expected_schema(session)
        except SetupError as exc:
            log.warning("other_schema", reason=exc.message)


async def wait_for_schema(database: Database, wait_s: float) -> None:
    """For a database that does not answer yet, and for tables that somebody else still brings to this version. Newer ones, and those
    that are older after that time, are an error."""
    deadline, say_at = system_clock.monotonic() + wait_s, system_clock.monotonic()
    while True:
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN_S), database.reading() as session:
                return await require_expected_schema(session)
        except REFUSED as exc:
            raise SetupError(f"The database refused the connection: {exc}.") from exc
        except (OlderSchemaError, OSError, TimeoutError, DBAPIError) as exc:
            now = system_clock.monotonic()
            if now >= deadline:
                raise
            if now >= say_at:
                reason = exc.message if isinstance(exc, OlderSchemaError) else repr(exc)
                log.warning("waiting_for_schema", reason=reason, left_s=round(deadline - now))
                say_at = now + _SAY_EVERY_S
            await asyncio.sleep(_LOOK_EVERY_S)

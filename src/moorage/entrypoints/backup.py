"""A dump of the whole database in one file, and the way back.

The keys that secrets are sealed with are not in it: `secret-keys` in the data folder is kept apart, and without it
what was sealed stays sealed. `full_backup.py` makes one file of everything, encrypted.
"""

import asyncio
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from moorage.kit.database import connect
from moorage.kit.database_relay import PORT, relay_to
from moorage.kit.dsn import Dsn, parse_dsn
from moorage.kit.errors import SetupError
from moorage.kit.home import prepare_home
from moorage.kit.installation import InstallationRow
from moorage.kit.postgres import EmbeddedPostgres, database_dsn
from moorage.kit.settings import Settings

_LAST_WORDS = 500
_KEPT = ("options", "application_name")
"""Of the address's parameters, what the server is told through the relay too; the others were about the way to it."""


async def backup(settings: Settings, file: Path) -> None:
    """As of one moment, while everything runs. The file is whole or not there."""
    await dump(settings, file)
    await note_backup(settings)


async def note_backup(settings: Settings) -> None:
    """That there is one, for Health."""
    await asyncio.to_thread(_note_of(settings).touch)
    connection = await connect(database_dsn(settings), timeout=10)
    try:
        # A database of an earlier version has no place for it.
        with suppress(asyncpg.UndefinedColumnError, asyncpg.UndefinedTableError):
            await connection.execute("UPDATE installation SET backed_up_at = now()")
    finally:
        await connection.close()


async def dump(settings: Settings, file: Path) -> None:
    unfinished = file.with_name(file.name + ".new")
    await asyncio.to_thread(_create_private, unfinished)
    try:
        await _run(
            settings, "pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={unfinished}"
        )
        await asyncio.to_thread(unfinished.replace, file)
    finally:
        await asyncio.to_thread(unfinished.unlink, missing_ok=True)


async def last_backup_at(session: AsyncSession, settings: Settings) -> datetime | None:
    """None: none that is known of. Backups of earlier versions left a note in the data folder alone."""
    recorded = (await session.execute(select(InstallationRow.backed_up_at))).scalar_one_or_none()
    noted = await asyncio.to_thread(_noted_backup_at, settings)
    return max((one for one in (recorded, noted) if one is not None), default=None)


def _noted_backup_at(settings: Settings) -> datetime | None:
    try:
        return datetime.fromtimestamp(_note_of(settings).stat().st_mtime, UTC)
    except FileNotFoundError:
        return None


def _note_of(settings: Settings) -> Path:
    """When it was last written, the last backup was made."""
    return settings.home / "last-backup"


async def restore(settings: Settings, file: Path) -> None:
    """Into a database without tables, all or nothing: what is there is never overwritten."""
    if settings.database_dsn is None:
        # Left running, for `moor up` to adopt.
        await asyncio.to_thread(prepare_home, settings)
        await EmbeddedPostgres(settings).start()
    connection = await connect(database_dsn(settings), timeout=10)
    try:
        tables = await connection.fetchval(
            "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
        )
    finally:
        await connection.close()
    if tables:
        raise SetupError(
            "The database is not empty. Restore into a new one: use an empty MOORAGE_HOME, or set "
            "MOORAGE_DATABASE_DSN to an empty database."
        )
    await _run(
        settings,
        "pg_restore",
        "--no-owner",
        "--no-privileges",
        "--single-transaction",
        "--exit-on-error",
        str(file),
    )


async def _run(settings: Settings, program: str, *arguments: str) -> None:
    binaries = await asyncio.to_thread(EmbeddedPostgres(settings).install)
    dsn = parse_dsn(database_dsn(settings))
    async with AsyncExitStack() as relayed:
        parameters = dsn.parameters
        hosts = dsn.hosts
        if dsn.may_use_tls:
            hosts = ((str(await relayed.enter_async_context(relay_to(dsn))), PORT),)
            parameters = {name: dsn.parameters[name] for name in _KEPT if name in dsn.parameters}
        await _run_at(
            Dsn(dsn.user, None, dsn.database, hosts, parameters), dsn.password, binaries / program, *arguments
        )


async def _run_at(place: Dsn, password: str | None, program: Path, *arguments: str) -> None:
    # The password goes by the environment: everybody on the machine can read the arguments.
    environment = {"PATH": "/usr/bin:/bin", "PGPASSWORD": password or ""}
    process = await asyncio.create_subprocess_exec(
        str(program),
        f"--dbname={place.text()}",
        *arguments,
        env=environment,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise SetupError(f"{program.name} failed: {errors.decode(errors='replace').strip()[-_LAST_WORDS:]}")


def _create_private(path: Path) -> None:
    """It holds everything that everybody has, so nobody else may read it, not even for a moment."""
    try:
        path.touch(mode=0o600, exist_ok=False)
    except FileExistsError as exc:
        raise SetupError(
            f"{path} is there, perhaps of a backup that was broken off. Remove it, or name another file."
        ) from exc
    except OSError as exc:
        raise SetupError(f"Cannot write {path}: {exc.strerror}.") from exc

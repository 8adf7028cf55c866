"""`moor bootstrap`: a new installation on a database of its own, or the next version of one, as a job that may be repeated.

Purpose: after it every role can start. Invariants: two at once do no harm, and what is there stays. When it fails, nothing was half done:
tables and first records are one transaction each, and the next run goes on.
"""

import asyncio
from collections.abc import Callable

import asyncpg

from moorage.entrypoints.bootstrap import bootstrap, operator_key_of
from moorage.entrypoints.migrate import migrate_installation
from moorage.entrypoints.schema_repository import EXPECTED_VERSION
from moorage.kit.clock import system_clock
from moorage.kit.database import REFUSED, Database, connect
from moorage.kit.errors import SetupError
from moorage.kit.home import prepare_home
from moorage.kit.installation import ensure_installation_id
from moorage.kit.keys import accept_keys, keep_same_keys, keyring_of
from moorage.kit.postgres import EmbeddedPostgres, database_dsn
from moorage.kit.settings import Settings

Say = Callable[[str], None]

_ASK_AGAIN_AFTER_S = 0.5


async def bootstrap_installation(
    settings: Settings, say: Say, *, wait_s: float, dump_first: bool, accept: bool
) -> None:
    """Keys first: they are the operator's to bring, and nothing is changed without them."""
    if settings.keys == "made":
        await asyncio.to_thread(prepare_home, settings)
    keyring = await asyncio.to_thread(keyring_of, settings)
    await asyncio.to_thread(operator_key_of, settings)
    say(f"Keys: secrets are sealed with {keyring.fingerprints[0]} ({len(keyring.fingerprints)} in all).")
    if settings.database_dsn is None:
        await EmbeddedPostgres(settings).start()
    dsn = database_dsn(settings)
    await wait_for_database(dsn, wait_s, say)
    changed = await migrate_installation(settings, say, dump_first=dump_first)
    say(f"Tables: {'brought to' if changed else 'already of'} version {EXPECTED_VERSION}.")
    database = Database(dsn, pool_size=2)
    try:
        async with database.transaction() as session:
            did = await bootstrap(session, settings)
            installation_id = await ensure_installation_id(session, settings.installation_id)
            await (accept_keys if accept else keep_same_keys)(session, keyring)
    finally:
        await database.close()
    say(f"Installation {installation_id}: {', '.join(did) if did else 'nothing was missing'}.")


async def wait_for_database(dsn: str, wait_s: float, say: Say) -> None:
    deadline, said = system_clock.monotonic() + wait_s, False
    while True:
        try:
            connection = await connect(dsn, timeout=min(10.0, max(1.0, wait_s)))
        except REFUSED as exc:
            raise SetupError(f"The database refused the connection: {exc}.") from exc
        except (OSError, TimeoutError, asyncpg.PostgresError) as exc:
            if system_clock.monotonic() >= deadline:
                raise SetupError(
                    f"The database did not answer within {wait_s:g} s: {exc or type(exc).__name__}."
                ) from exc
            if not said:
                say(f"Waiting for the database, {wait_s:g} s at most …")
                said = True
            await asyncio.sleep(_ASK_AGAIN_AFTER_S)
        else:
            await connection.close()
            return

"""The role `api`, wired."""

import asyncio
import socket
from contextlib import suppress

import uvicorn
from sqlalchemy.exc import DBAPIError

from moorage.entrypoints.api import create_app
from moorage.entrypoints.health import DATABASE_ANSWERS_WITHIN_S
from moorage.entrypoints.schema_repository import wait_for_schema
from moorage.entrypoints.sockets import api_socket_path
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.home import give_to_service_user
from moorage.kit.keys import keep_same_keys, keyring_of
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings


async def serve(settings: Settings) -> None:
    """On a Unix socket behind HAProxy, which holds the public address also while this process restarts."""
    database = Database(database_dsn(settings), pool_size=settings.database_pool_size)
    keyring = keyring_of(settings)
    await _refuse_what_is_not_ours(database, keyring, settings.database_wait_s)
    app = create_app(settings, database, keyring)
    path = api_socket_path(settings)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        # HAProxy's unprivileged workers connect to it, and nobody else.
        path.chmod(0o600)
        give_to_service_user(path)
        listening.listen(1024)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
            proxy_headers=True,
            forwarded_allow_ips="*",
        )
        server = uvicorn.Server(config)
        broken: list[BaseException] = []

        def end(error: BaseException) -> None:
            broken.append(error)
            server.should_exit = True

        app.state.when_broken = end
        await server.serve(sockets=[listening])
    if broken:
        # Should a part of it end after all, so does the process: it is started again, and everything with it.
        raise broken[0]


async def _refuse_what_is_not_ours(database: Database, keyring: Keyring, wait_s: float) -> None:
    """Tables of another version, and secrets that were sealed with other keys. Without an answer we go on: requests are told that
    the database is away, and `/readyz` looks again."""
    with suppress(OSError, TimeoutError, DBAPIError):
        await wait_for_schema(database, wait_s)
        async with asyncio.timeout(DATABASE_ANSWERS_WITHIN_S), database.transaction() as session:
            await keep_same_keys(session, keyring)

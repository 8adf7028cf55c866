"""The role `api`, wired."""

import asyncio
import logging
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import uvicorn
from sqlalchemy.exc import DBAPIError
from starlette.types import ASGIApp

from moorage.entrypoints.api import create_app
from moorage.entrypoints.broken_off import BrokenOff, WithoutThoseBrokenOff
from moorage.entrypoints.forwarded import Forwarded
from moorage.entrypoints.health import DATABASE_ANSWERS_WITHIN_S
from moorage.entrypoints.schema_repository import wait_for_schema
from moorage.entrypoints.sockets import api_socket_path
from moorage.kit.crypto import Keyring
from moorage.kit.database import Database
from moorage.kit.errors import SetupError
from moorage.kit.home import give_to_service_user
from moorage.kit.keys import keep_same_keys, keyring_of
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings

_BACKLOG = 1024


async def serve(settings: Settings) -> None:
    """On a Unix socket behind HAProxy, which holds the public address also while this process restarts; and at an address of its
    own for gateways on other hosts, where the settings name one."""
    database = Database(database_dsn(settings), pool_size=settings.database_pool_size)
    keyring = keyring_of(settings)
    await _refuse_what_is_not_ours(database, keyring, settings.database_wait_s)
    app = create_app(settings, database, keyring)
    with ExitStack() as open_sockets:
        listening = [open_sockets.enter_context(_local_socket(api_socket_path(settings)))]
        if settings.api_role_listen is not None:
            listening.append(open_sockets.enter_context(_tcp_socket(settings.api_role_listen)))
        server = server_of(Forwarded(app, settings.api_role_gateways))
        broken: list[BaseException] = []

        def end(error: BaseException) -> None:
            broken.append(error)
            server.should_exit = True

        app.state.when_broken = end
        await server.serve(sockets=listening)
    if broken:
        # Should a part of it end after all, so does the process: it is started again, and everything with it.
        raise broken[0]


def server_of(app: ASGIApp, *, grace_s: int = 5) -> uvicorn.Server:
    """`grace_s`: what requests have that are at work when it is asked to end."""
    logging.getLogger("uvicorn.error").addFilter(WithoutThoseBrokenOff())
    return uvicorn.Server(
        uvicorn.Config(
            BrokenOff(app),
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=grace_s,
            proxy_headers=False,
        )
    )


def _local_socket(path: Path) -> socket.socket:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(str(path))
    # HAProxy's unprivileged workers connect to it, and nobody else.
    path.chmod(0o600)
    give_to_service_user(path)
    listening.listen(_BACKLOG)
    return listening


def _tcp_socket(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    try:
        return socket.create_server(
            (host.strip("[]"), int(port)),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=_BACKLOG,
        )
    except OSError as exc:
        raise SetupError(f"Cannot listen on {address}: {exc.strerror}. See MOORAGE_API_ROLE_LISTEN.") from exc


async def _refuse_what_is_not_ours(database: Database, keyring: Keyring, wait_s: float) -> None:
    """Tables of another version, and secrets that were sealed with other keys. Without an answer we go on: requests are told that
    the database is away, and `/readyz` looks again."""
    with suppress(OSError, TimeoutError, DBAPIError):
        await wait_for_schema(database, wait_s)
        async with asyncio.timeout(DATABASE_ANSWERS_WITHIN_S), database.transaction() as session:
            await keep_same_keys(session, keyring)

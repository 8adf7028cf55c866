"""The role `api`, wired."""

import socket

import uvicorn

from moorage.entrypoints.api import create_app
from moorage.entrypoints.sockets import api_socket_path
from moorage.kit.crypto import load_or_create_keyring
from moorage.kit.database import Database
from moorage.kit.home import give_to_service_user
from moorage.kit.postgres import database_dsn
from moorage.kit.settings import Settings


async def serve(settings: Settings) -> None:
    """On a Unix socket behind HAProxy, which holds the public address also while this process restarts."""
    dsn = database_dsn(settings)
    app = create_app(
        settings,
        Database(dsn, pool_size=settings.database_pool_size),
        load_or_create_keyring(settings.key_file),
    )
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
        await uvicorn.Server(config).serve(sockets=[listening])

"""What the roles of one machine stand on: an engine, the database with its tables, and an example. For `moor up` and for the service
(`service/keep.py`), which run the roles in two ways.

Nothing is started before everything that can be checked has been: a second start on the same data, a port in use or a folder that
cannot be written to ends in one line and changes nothing.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from moorage.engines.docker.daemon import ensure_engine, ensure_own_engine, own_engine_is_running
from moorage.engines.docker.network import NetworkIsolation
from moorage.entrypoints.bootstrap import bootstrap, operator_sign_in_link
from moorage.entrypoints.engine import docker_engine
from moorage.entrypoints.example_image import ensure_example_image
from moorage.entrypoints.gateway_role import create_dataplane
from moorage.entrypoints.migrate import migrate_installation
from moorage.entrypoints.supervisor import SupervisedDaemon
from moorage.gateway.agent import stable_gateway_id
from moorage.gateway.repository import forget_gateway
from moorage.kit.database import Database
from moorage.kit.errors import MoorageError, SetupError
from moorage.kit.home import prepare_home
from moorage.kit.installation import ensure_installation_id
from moorage.kit.keys import keep_same_keys, keyring_of
from moorage.kit.lock_files import open_lock_file
from moorage.kit.postgres import EmbeddedPostgres, database_dsn
from moorage.kit.settings import Settings

Say = Callable[[str], None]


@dataclass(frozen=True)
class Foundation:
    docker_host: str
    environment: dict[str, str]
    """What the roles have to know besides their settings."""
    daemons: list[SupervisedDaemon]
    link: str
    """Signs the operator in, once."""


@contextlib.asynccontextmanager
async def foundation(settings: Settings, say: Say) -> AsyncIterator[Foundation]:
    """Stands until the end of the block, and is nobody else's meanwhile."""
    await asyncio.to_thread(prepare_home, settings)
    with _only_one(settings):
        _check_ports(settings)
        docker_host = await ensure_engine(settings, say)
        postgres = EmbeddedPostgres(settings) if settings.database_dsn is None else None
        if postgres is not None:
            say("Starting the database …")
            await postgres.start()
        link = await _prepare_database(settings, say)
        environment = settings_for(
            await _isolation(settings, docker_host), say, required=settings.isolation == "required"
        )
        yield Foundation(
            docker_host,
            {**environment, "MOORAGE_DOCKER_HOST": docker_host},
            _daemons_of(settings, postgres, say),
            link,
        )


def running_pid(settings: Settings) -> int | None:
    """Of the `moor up` that holds this data."""
    path = _lock_path(settings)
    if not path.exists():
        return None
    with open(path) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(lock.read().strip() or 0) or None
    return None


@contextlib.contextmanager
def _only_one(settings: Settings) -> Iterator[None]:
    with open_lock_file(_lock_path(settings)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            pid = lock.read().strip()
            raise SetupError(
                f"Moorage already runs on {settings.home} (pid {pid}). Stop it first with `moor down`."
            ) from exc
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def _check_ports(settings: Settings) -> None:
    if create_dataplane(settings).alive():
        return  # A HAProxy of ours outlived its agent and holds them.
    addresses = {"api_listen": settings.api_listen, "gateway_listen": settings.gateway_listen}
    if settings.certified_names:
        addresses["acme_listen"] = settings.acme_listen
    for name, listen in addresses.items():
        host, _, port = listen.rpartition(":")
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host.strip("[]"), int(port)))
            except OSError as exc:
                raise SetupError(
                    f"Cannot listen on {listen}: {exc.strerror}. Choose another with MOORAGE_{name.upper()}=host:port."
                ) from exc


async def _prepare_database(settings: Settings, say: Say) -> str:
    await migrate_installation(settings, say)
    database = Database(database_dsn(settings), pool_size=2)
    try:
        async with database.transaction() as session:
            await bootstrap(session, settings)
            await keep_same_keys(session, await asyncio.to_thread(keyring_of, settings))
            return await operator_sign_in_link(session, settings)
    finally:
        await database.close()


async def new_sign_in_link(settings: Settings) -> str:
    database = Database(database_dsn(settings), pool_size=2)
    try:
        async with database.transaction() as session:
            return await operator_sign_in_link(session, settings)
    finally:
        await database.close()


def settings_for(isolation: NetworkIsolation, say: Say, *, required: bool) -> dict[str, str]:
    """Where containers cannot be kept apart, strangers must not bring theirs: sign-up is closed, and said to be."""
    for weakness in isolation.weaknesses:
        say(f"Note: {weakness}. Health shows it too.")
    if isolation.isolated:
        return {}
    say(
        f"This machine cannot keep containers apart ({isolation.reason}): they could reach each other and "
        "this machine. Sign-up is closed"
        + (
            ", and no new container starts. Install iptables and run Moorage as root. If only you use this "
            "machine, you can set MOORAGE_ISOLATION=waived instead."
            if required
            else ". Containers start anyway, because MOORAGE_ISOLATION is waived."
        )
    )
    return {"MOORAGE_SIGN_UP": "closed"}


async def _isolation(settings: Settings, docker_host: str) -> NetworkIsolation:
    database = Database(database_dsn(settings), pool_size=2)
    try:
        async with database.transaction() as session:
            installation_id = await ensure_installation_id(session)
    finally:
        await database.close()
    engine = docker_engine(settings, docker_host, installation_id)
    try:
        await engine.check_runtime()
        await engine.prepare()
        return engine.network_isolation
    finally:
        await engine.close()


async def build_example(settings: Settings, docker_host: str, say: Say) -> None:
    try:
        await ensure_example_image(docker_host, settings.home / "cache", say)
    except MoorageError as exc:
        # Everything else works without it.
        say(f"The example image local/chat:latest could not be built: {exc.message}")


def _daemons_of(settings: Settings, postgres: EmbeddedPostgres | None, say: Say) -> list[SupervisedDaemon]:
    """Those that run on this machine because Moorage started them."""
    daemons = []
    if postgres is not None:
        daemons.append(
            SupervisedDaemon("The database", lambda: postgres.running_pid() is not None, postgres.start)
        )
    if own_engine_is_running(settings):
        daemons.append(
            SupervisedDaemon(
                "The Docker engine",
                lambda: own_engine_is_running(settings),
                lambda: _start_own_engine(settings, say),
            )
        )
    return daemons


async def stop_gateway_and_database(settings: Settings) -> None:
    dataplane = create_dataplane(settings)
    if dataplane.alive():
        await dataplane.stop()
        with contextlib.suppress(
            Exception
        ):  # the database may be down; a gateway that is gone shows by its silence
            await _forget_gateway(settings)
    if settings.database_dsn is None:
        await EmbeddedPostgres(settings).stop()


async def _forget_gateway(settings: Settings) -> None:
    database = Database(database_dsn(settings), pool_size=2)
    try:
        async with database.transaction() as session:
            await forget_gateway(session, stable_gateway_id(settings.home))
    finally:
        await database.close()


async def _start_own_engine(settings: Settings, say: Say) -> None:
    await ensure_own_engine(settings, say)


def _lock_path(settings: Settings) -> Path:
    return settings.run_dir / "up.lock"

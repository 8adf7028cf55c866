"""`moor up`: everything on one machine, from an empty folder to "ready"; `moor down` and `moor clean` are its opposites. It is for
trying out: an installation runs the same as a service (`service/`)."""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable, Sequence

from moorage.engines.docker.daemon import (
    ensure_engine,
    remove_engine_data,
    stop_engine,
)
from moorage.engines.docker.engine import DockerEngine
from moorage.entrypoints.announcement import announce
from moorage.entrypoints.foundation import (
    Foundation,
    build_example,
    foundation,
    running_pid,
    stop_gateway_and_database,
)
from moorage.entrypoints.service.places import HOME, STARTS_AT_BOOT
from moorage.entrypoints.supervisor import RoleProcess, SupervisedDaemon, keep_daemons
from moorage.kit.clock import system_clock
from moorage.kit.database import Database
from moorage.kit.errors import SetupError
from moorage.kit.installation import ensure_installation_id
from moorage.kit.log_files import keep_log_files
from moorage.kit.postgres import EmbeddedPostgres, database_dsn
from moorage.kit.settings import Settings
from moorage.tunnel.interface import take_down_all

Say = Callable[[str], None]


async def up(settings: Settings, say: Say) -> None:
    """Start everything, say how to use it, keep it running until SIGINT or SIGTERM."""
    async with foundation(settings, say) as ground:
        await build_example(settings, ground.docker_host, say)
        say("Starting the API, the controller and the gateway …")
        await _run(settings, ground, say)


async def down(settings: Settings, say: Say) -> None:
    """Stop everything, users' containers included. The data stays."""
    _refuse_the_service(settings)
    await stop_everything(settings, say, remove_replicas=False)
    say("Stopped. The data stays. Start again with `make up`.")


async def clean(settings: Settings, say: Say) -> None:
    """Back to nothing: stop everything, remove the containers and the data folder."""
    _refuse_the_service(settings)
    await stop_everything(settings, say, remove_replicas=True)
    await remove_engine_data(settings)
    await asyncio.to_thread(shutil.rmtree, settings.home, ignore_errors=True)
    say(f"Removed {settings.home}.")


def _refuse_the_service(settings: Settings) -> None:
    """It would be started again, and half of it left running."""
    if settings.home == HOME and STARTS_AT_BOOT.is_symlink():
        raise SetupError(
            "Moorage is a service of this machine. Stop it with `systemctl stop moorage`, or remove it with `moor uninstall`."
        )


async def stop_everything(settings: Settings, say: Say, *, remove_replicas: bool) -> None:
    pid = running_pid(settings)
    if pid is not None:
        say(f"Stopping Moorage (pid {pid}) …")
        os.kill(pid, signal.SIGTERM)
        await _gone(settings)
    await stop_gateway_and_database(settings)
    await take_down_all(settings.run_dir, settings.log_dir)
    await _stop_replicas(settings, say, remove=remove_replicas)
    await stop_engine(settings)


async def _run(settings: Settings, ground: Foundation, say: Say) -> None:
    environment = {**ground.environment, "MOORAGE_HOME": str(settings.home.absolute())}
    roles = [
        RoleProcess(role, settings.log_dir, environment, say) for role in ("gateway", "api", "controller")
    ]
    running = asyncio.ensure_future(_supervise(roles, ground.daemons, settings, ground.link, say))
    loop = asyncio.get_running_loop()
    for stop_signal in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(stop_signal, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        say("Stopping …")
    await stop_gateway_and_database(settings)
    say(
        "Stopped. Users' containers keep running, and their endpoints answer again at the next start. `make down` stops them too."
    )


async def _supervise(
    roles: Sequence[RoleProcess], daemons: Sequence[SupervisedDaemon], settings: Settings, link: str, say: Say
) -> None:
    async with asyncio.TaskGroup() as group:
        for role in roles:
            group.create_task(role.run())
        group.create_task(keep_daemons(daemons, say))
        group.create_task(keep_log_files(settings.log_dir, settings.log_file_bytes, system_clock))
        await announce(settings, link, say)


async def _stop_replicas(settings: Settings, say: Say, *, remove: bool) -> None:
    """Asks the database only for the installation's id; works with everything of ours stopped."""
    if settings.database_dsn is None and not (settings.home / "postgres/data").exists():
        return
    postgres = EmbeddedPostgres(settings) if settings.database_dsn is None else None
    if postgres is not None:
        await postgres.start()
    database = Database(database_dsn(settings), pool_size=2)
    try:
        async with database.transaction() as session:
            installation_id = await ensure_installation_id(session)
        engine = DockerEngine(await ensure_engine(settings, say), installation_id, system_clock)
        replicas = await engine.list_replicas()
        if replicas:
            say(f"Stopping {len(replicas)} replica(s) …")
            await asyncio.gather(*(engine.stop(one.engine_id, settings.stop_grace_s) for one in replicas))
        if remove:
            await asyncio.gather(*(engine.remove(one.engine_id) for one in replicas))
            await engine.dismantle()
        await engine.close()
    finally:
        await database.close()
        if postgres is not None:
            await postgres.stop()


async def _gone(settings: Settings) -> None:
    deadline = system_clock.monotonic() + 60
    while running_pid(settings) is not None:
        if system_clock.monotonic() > deadline:
            raise SetupError("Moorage did not stop within 60 s.")
        await asyncio.sleep(0.1)

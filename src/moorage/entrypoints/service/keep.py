"""`moor keep`, the process of `moorage.service`: makes this machine ready for the roles, then keeps the database running.

Purpose: the roles, each a unit of its own, find an engine, a database with tables of this version, and what they have to know in
`run/roles.env`. Invariant: killed, it leaves the database and HAProxy serving, and the next one adopts them. Asked to end, it ends
them: the roles have ended before (`After=` in their units).
"""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path

from moorage.entrypoints.foundation import Foundation, build_example, foundation, stop_gateway_and_database
from moorage.entrypoints.supervisor import keep_daemons
from moorage.kit.clock import system_clock
from moorage.kit.log_files import keep_log_files
from moorage.kit.notify import tell_service_manager
from moorage.kit.settings import Settings

Say = Callable[[str], None]


async def keep(settings: Settings, say: Say) -> None:
    """Until SIGTERM."""
    running = asyncio.ensure_future(_keep(settings, say))
    loop = asyncio.get_running_loop()
    for stop_signal in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(stop_signal, running.cancel)
    try:
        await running
    except asyncio.CancelledError:
        say("Stopping …")
        tell_service_manager("STOPPING=1")
        await stop_gateway_and_database(settings)


async def _keep(settings: Settings, say: Say) -> None:
    async with foundation(settings, say) as ground:
        await asyncio.to_thread(_write_environment, settings.run_dir / "roles.env", ground)
        say("This machine is ready for the roles.")
        tell_service_manager("READY=1")
        async with asyncio.TaskGroup() as group:
            group.create_task(keep_daemons(ground.daemons, say))
            group.create_task(keep_log_files(settings.log_dir, settings.log_file_bytes, system_clock))
            # Nobody waits for it: it may have to be downloaded.
            group.create_task(build_example(settings, ground.docker_host, say))


def _write_environment(file: Path, ground: Foundation) -> None:
    unfinished = file.with_name(f"{file.name}.new")
    unfinished.write_text("".join(f'{name}="{value}"\n' for name, value in ground.environment.items()))
    unfinished.replace(file)

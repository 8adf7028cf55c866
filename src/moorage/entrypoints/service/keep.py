"""`moor keep`, the process of `moorage.service`: makes this machine ready for the roles, then keeps the database running.

Purpose: the roles, each a unit of its own, find an engine, a database with tables of this version, and what they have to know in
`run/roles.env`. Invariant: killed, it leaves the database and HAProxy serving, and the next one adopts them. Asked to end, it ends
them: the roles have ended before (`After=` in their units). Asked to reload, it goes on in the same process as the version that
`/opt/moorage/current` leads to, and ends nothing.

An upgrade whose process ended in the middle is its business too: it goes back, at its start and whenever it finds one.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from moorage.entrypoints.foundation import Foundation, build_example, foundation, stop_gateway_and_database
from moorage.entrypoints.service.places import Installation
from moorage.entrypoints.service.upgrade.abandoned import find_abandoned, go_back_when_abandoned
from moorage.entrypoints.service.upgrade.back import restore_link
from moorage.entrypoints.service.upgrade.manager import Systemd
from moorage.entrypoints.supervisor import keep_daemons
from moorage.kit.clock import system_clock
from moorage.kit.log_files import keep_log_files
from moorage.kit.notify import tell_service_manager
from moorage.kit.settings import Settings

Say = Callable[[str], None]


async def keep(settings: Settings, say: Say, installation: Installation) -> None:
    """Until SIGTERM."""
    _start_as_before(installation, say)
    running = asyncio.ensure_future(_keep(settings, say, installation))
    signals: list[signal.Signals] = []

    def end(which: signal.Signals) -> None:
        signals.append(which)
        running.cancel()

    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(one, end, one)
    try:
        await running
    except asyncio.CancelledError:
        if set(signals) == {signal.SIGHUP}:
            _go_on_as_current(installation, say)
        say("Stopping …")
        tell_service_manager("STOPPING=1")
        await stop_gateway_and_database(settings)


async def _keep(settings: Settings, say: Say, installation: Installation) -> None:
    async with foundation(settings, say) as ground:
        await asyncio.to_thread(_write_environment, settings.run_dir / "roles.env", ground)
        say("This machine is ready for the roles.")
        tell_service_manager("READY=1")
        async with asyncio.TaskGroup() as group:
            group.create_task(keep_daemons(ground.daemons, say))
            group.create_task(keep_log_files(settings.log_dir, settings.log_file_bytes, system_clock))
            # Nobody waits for it: it may have to be downloaded.
            group.create_task(build_example(settings, ground.docker_host, say))
            group.create_task(go_back_when_abandoned(installation, Systemd(), say))


def _start_as_before(installation: Installation, say: Say) -> None:
    """After a boot in the middle of an upgrade: the roles, which start after this, then find the link where it was."""
    with find_abandoned(installation) as entry:
        if entry is not None:
            say(f"An upgrade to {entry.after.name} was interrupted. Going back to {entry.before.name}.")
            restore_link(installation, entry)
    if entry is not None and Path(sys.prefix) != entry.before:
        _go_on_as_current(installation, say)


def _go_on_as_current(installation: Installation, say: Say) -> None:
    command = installation.current / "bin/moor"
    say(f"Going on as {installation.current.readlink().name}.")
    sys.stdout.flush()
    os.execv(command, [str(command), "keep"])  # noqa: S606 - our own program


def _write_environment(file: Path, ground: Foundation) -> None:
    unfinished = file.with_name(f"{file.name}.new")
    unfinished.write_text("".join(f'{name}="{value}"\n' for name, value in ground.environment.items()))
    unfinished.replace(file)

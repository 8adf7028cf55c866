"""Back to the version before, from wherever an upgrade was. May be repeated, and ended at any point: it looks at what is."""

import asyncio
import subprocess
from collections.abc import Callable, Iterable

from moorage.entrypoints.service.places import Installation
from moorage.entrypoints.service.steps import exchange_link
from moorage.entrypoints.service.upgrade.gate import Gate, environment_of
from moorage.entrypoints.service.upgrade.journal import Entry, Journal, Stage
from moorage.entrypoints.service.upgrade.plan import ROLES
from moorage.entrypoints.service.upgrade.release import remove_unfinished
from moorage.kit.clock import system_clock
from moorage.kit.errors import MoorageError

Say = Callable[[str], None]


def restore_link(installation: Installation, entry: Entry) -> None:
    """Needs no room on the disk."""
    if installation.current.readlink() == entry.before:
        return
    if installation.way_back.is_symlink():
        installation.way_back.replace(installation.current)
    else:
        exchange_link(installation.current, entry.before)


async def go_back(
    installation: Installation,
    entry: Entry,
    gate: Gate,
    say: Say,
    *,
    roles: Iterable[tuple[str, str]] = ROLES,
) -> list[str]:
    """The journal has to be held. What does not serve on the version before either."""
    restore_link(installation, entry)
    troubles: list[str] = []
    if entry.stage is Stage.SWITCHING:
        for role, unit in roles:
            try:
                await _renew(role, unit, entry, gate, say)
            except (MoorageError, OSError, subprocess.TimeoutExpired) as exc:
                troubles.append(exc.message if isinstance(exc, MoorageError) else str(exc))
    elif entry.made:
        await asyncio.to_thread(remove_unfinished, entry.after)
    installation.way_back.unlink(missing_ok=True)
    Journal(installation).remove()
    return troubles


async def _renew(role: str, unit: str, entry: Entry, gate: Gate, say: Say) -> None:
    """Those that were not restarted yet serve on."""
    pid = await asyncio.to_thread(gate.manager.main_pid, unit)
    if pid and environment_of(pid) == entry.before:
        return
    say(f"Restart {unit} on the previous version.")
    since_s = system_clock.now().timestamp()
    restart = gate.manager.reload if role == "keep" else gate.manager.restart
    await asyncio.to_thread(restart, unit)
    await gate.until_serving(role, unit, entry.before, since_s)

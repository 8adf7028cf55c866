"""An upgrade whose process ended in the middle: what the keeper does about it."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from moorage.entrypoints.service.places import Installation
from moorage.entrypoints.service.units import SERVICE
from moorage.entrypoints.service.upgrade.back import go_back, restore_link
from moorage.entrypoints.service.upgrade.gate import Gate
from moorage.entrypoints.service.upgrade.journal import Entry, Journal, UnderWayError
from moorage.entrypoints.service.upgrade.manager import ServiceManager
from moorage.kit.clock import system_clock

_LOOK_EVERY_S = 2.0
_WITHIN_S = 120.0

Say = Callable[[str], None]


@contextlib.contextmanager
def find_abandoned(installation: Installation) -> Iterator[Entry | None]:
    """Held within the block; None: there is none, or somebody works on it."""
    if not installation.journal.exists():
        yield None
        return
    journal = Journal(installation)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(journal.held())
        except UnderWayError:
            yield None
            return
        yield journal.read()


async def go_back_when_abandoned(installation: Installation, manager: ServiceManager, say: Say) -> None:
    """For good, in the keeper. One of the wrong version first goes on as the one before, which then sees to the others."""
    while True:
        try:
            await _look(installation, manager, say)
        except Exception as exc:  # noqa: BLE001 - said, and tried again: the roles would end with the keeper
            say(f"Going back from an upgrade failed. Trying again: {exc}")
        await system_clock.sleep(_LOOK_EVERY_S)


async def _look(installation: Installation, manager: ServiceManager, say: Say) -> None:
    with find_abandoned(installation) as entry:
        if entry is not None:
            restore_link(installation, entry)
            if Path(sys.prefix) == entry.before:
                say(f"The upgrade to {entry.after.name} was interrupted. Going back to {entry.before.name}.")
                gate = Gate(installation, manager, _WITHIN_S)
                for trouble in await go_back(installation, entry, gate, say):
                    say(trouble)
    if entry is not None and Path(sys.prefix) != entry.before:
        await asyncio.to_thread(manager.reload, SERVICE)

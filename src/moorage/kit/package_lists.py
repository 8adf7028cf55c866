"""The package lists of Debian and Ubuntu, which apt-get does not wait for, unlike for packages: another program may have them.

In its first minutes a machine often upgrades itself, and `unattended-upgrades` may be at it at any time.
"""

from collections.abc import Awaitable, Callable

from moorage.kit.clock import Clock, system_clock
from moorage.kit.errors import SetupError

_LOCKED = "Unable to lock directory"
_WITHIN_S = 300.0
_PAUSE_S = 1.0


async def update_when_free(update: Callable[[], Awaitable[object]], clock: Clock = system_clock) -> None:
    """`update`: runs `apt-get update` with LC_ALL=C, and raises its last line as a `SetupError`."""
    deadline_s = clock.monotonic() + _WITHIN_S
    while True:
        try:
            await update()
            return
        except SetupError as exc:
            if _LOCKED not in str(exc) or clock.monotonic() > deadline_s:
                raise
            await clock.sleep(_PAUSE_S)

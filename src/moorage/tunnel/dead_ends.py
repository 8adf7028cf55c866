"""Routes that lead nowhere, behind the tunnel's own.

While the interface is away, after a start of the machine or because its program died, what is meant for the tunnel would leave
by the default route: requests of tenants, environments and credentials, in the open, to whoever answers there. So there is a
second route for the same addresses that the kernel takes only then, and that refuses at once.
"""

import json
from collections.abc import Iterable
from typing import Any

from moorage.tunnel.programs import TunnelError, run

_METRIC = 41_981_900
"""Behind any other route to the same network; and how ours are known."""


async def ensure_dead_ends(networks: Iterable[str]) -> None:
    """Raises `TunnelError`."""
    present = {route["dst"] for route in await _present()}
    for network in networks:
        if network.removesuffix("/32") not in present:
            await run("ip", "route", "replace", "unreachable", network, "metric", str(_METRIC))


async def remove_dead_ends() -> None:
    """Safe to repeat."""
    for route in await _present():
        await run("ip", "route", "delete", "unreachable", route["dst"], "metric", str(_METRIC))


async def _present() -> list[dict[str, Any]]:
    found = json.loads(await run("ip", "-json", "-4", "route", "show", "type", "unreachable") or "[]")
    if not isinstance(found, list):
        raise TunnelError("ip route did not answer with a list.")
    return [route for route in found if route.get("metric") == _METRIC]

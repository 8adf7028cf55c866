"""Which registries may be reached: public addresses, and those that the operator lists.

Without this, an image name would make the engine knock at any address of the operator's own network.
"""

import asyncio
import ipaddress
import socket

from moorage.containers.spec import registry_host
from moorage.containers.states import Reason
from moorage.kit.errors import ImageError

_LOOKUP_TIMEOUT_S = 10.0
_PRIVATE_TOP_LABELS = ("local", "internal", "localhost", "lan", "home", "corp")


def is_allowed_without_lookup(image: str, allowed: tuple[str, ...]) -> bool:
    """What can be said from the name alone: a literal private address or a bare name is refused at once."""
    host = registry_host(image)
    if host in allowed:
        return True
    name = host.rpartition(":")[0] or host
    try:
        return ipaddress.ip_address(name).is_global
    except ValueError:
        # A name whose last label is not a word is a number in disguise: 0x7f.1 and 2130706433.0 are addresses too.
        labels = name.lower().split(".")
        return len(labels) > 1 and labels[-1][:1].isalpha() and labels[-1] not in _PRIVATE_TOP_LABELS


async def check_registry_address(image: str, allowed: tuple[str, ...]) -> None:
    """Look the host up and refuse it if any of its addresses is not public."""
    host = registry_host(image)
    if host in allowed:
        return
    name, _, port = host.partition(":")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_LOOKUP_TIMEOUT_S):
            found = await loop.getaddrinfo(name, int(port or 443), type=socket.SOCK_STREAM)
    except (OSError, TimeoutError) as exc:
        raise ImageError(
            f"The registry {host} cannot be found. Check the image's host name.",
            code=Reason.REGISTRY_UNREACHABLE,
        ) from exc
    if not all(ipaddress.ip_address(address[4][0]).is_global for address in found):
        raise ImageError(
            f"The registry {host} is at a private address; the operator has not allowed it.",
            code=Reason.REGISTRY_UNREACHABLE,
        )

"""Who is where in the tunnel's network. Pure.

The first 256 addresses are for hubs (gateway hosts), the others for machines. A machine's address is given to no other
before it was removed for a while: what a gateway still believes about an address must not lead to somebody else's
containers.
"""

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network

HUBS = 256
"""Addresses of them, the network's own included."""
NODE_PORT = 7420
"""Of a machine, in the tunnel: its node role."""
DOOR_PORT = 7421
"""Of a hub, in the tunnel: the pull proxy, and all that a machine reaches there."""


def hub_address(network: IPv4Network, taken: Collection[int]) -> IPv4Address:
    """The lowest that is free. Raises `ValueError` where none is."""
    first = int(network.network_address)
    return _lowest_free(range(first + 1, first + HUBS), taken)


def machine_address(network: IPv4Network, taken: Collection[int]) -> IPv4Address:
    """After the last one that was given, so that a freed address rests for as long as there are others; then the lowest
    that is free. Raises `ValueError` where none is."""
    first, last = int(network.network_address) + HUBS, int(network.broadcast_address) - 1
    after = max((address for address in taken if first <= address <= last), default=first - 1) + 1
    if after <= last:
        return IPv4Address(after)
    return _lowest_free(range(first, last + 1), taken)


def _lowest_free(candidates: range, taken: Collection[int]) -> IPv4Address:
    given = frozenset(taken)
    for candidate in candidates:
        if candidate not in given:
            return IPv4Address(candidate)
    raise ValueError("no address of the tunnel's network is free")

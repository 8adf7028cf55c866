"""For whom work is done right now, so that what is scarce can be shared: a person with their keys, or a source.

The edge sets it for each request; whoever hands out something scarce asks for it. Work of our own has no client.
"""

import ipaddress
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from moorage.kit.fair_slots import FairSlots

_ONE_NETWORK_BITS = 64
"""What an IPv6 client usually has for itself."""


@dataclass
class Client:
    """Of one request."""

    name: str
    connections: FairSlots
    """To the database."""
    note: Callable[[str], None]
    """Takes the name under which its next request shares."""
    connections_held: int = 0


current_client: ContextVar[Client | None] = ContextVar("current_client", default=None)


def note_client(name: str) -> None:
    """Who it turned out to be. What this request uses still counts for the name it began with: to change queues with
    something in hand is how everybody comes to wait for everybody."""
    client = current_client.get()
    if client is not None:
        client.note(name)


def source_of(host: str) -> str:
    """What counts as one stranger: an IPv4 address, or an IPv6 network of the size that one client is given.

    `host` is the connection's, which behind our own HAProxy is what its `X-Forwarded-For` says; HAProxy removes the
    header that a client sends."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _ONE_NETWORK_BITS), strict=False))

"""Whom a tunnel's end talks to: a function of rows, and of nothing else. Pure.

Hub and spoke. A hub knows each machine by its key and lets it speak from its one address; a machine knows each hub,
dials it, and keeps the way open through whatever translates addresses in between. No machine is ever a peer of another.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

KEEPALIVE_S = 25
"""Shorter than any router forgets a UDP conversation."""


@dataclass(frozen=True)
class MachineEnd:
    machine_id: str
    address: str
    public_key: str


@dataclass(frozen=True)
class HubEnd:
    hub_id: str
    address: str
    public_key: str
    endpoint: str
    """`host:port`, as machines dial it."""


@dataclass(frozen=True)
class Peer:
    public_key: str
    address: str
    """The only one that it may speak from, and that is sent to it."""
    endpoint: str | None = None
    """None: it dials us."""
    keepalive_s: int = 0


@dataclass(frozen=True)
class HubPeers:
    peers: tuple[Peer, ...]
    ambiguous: frozenset[str]
    """Machines that share a key or an address with another. WireGuard would give what is one's to the other, so neither
    is a peer."""


def hub_peers(machines: Iterable[MachineEnd]) -> HubPeers:
    """Of a hub: all machines, in the order of their keys."""
    known = list(machines)
    keys = Counter(machine.public_key for machine in known)
    addresses = Counter(machine.address for machine in known)
    clear = [one for one in known if keys[one.public_key] == 1 and addresses[one.address] == 1]
    return HubPeers(
        tuple(sorted((Peer(one.public_key, one.address) for one in clear), key=_by_key)),
        frozenset(one.machine_id for one in known if one not in clear),
    )


def machine_peers(hubs: Iterable[HubEnd]) -> tuple[Peer, ...]:
    """Of a machine: the hubs, which it dials."""
    return tuple(
        sorted((Peer(one.public_key, one.address, one.endpoint, KEEPALIVE_S) for one in hubs), key=_by_key)
    )


def _by_key(peer: Peer) -> str:
    return peer.public_key

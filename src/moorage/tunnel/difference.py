"""What to change about a WireGuard interface: `wg show … dump` against what is wanted. Pure.

Only what differs is touched, so that what flows through the other peers never notices. One that goes is named before one
that comes: they may share an address, when a machine has a new key.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from moorage.tunnel.peers import Peer


@dataclass(frozen=True)
class PresentPeer:
    public_key: str
    endpoint: str | None
    allowed: tuple[str, ...]
    handshake_at_s: int
    """Seconds since 1970; 0: never."""
    keepalive_s: int


@dataclass(frozen=True)
class Present:
    public_key: str | None
    """None: the interface has no key yet."""
    listen_port: int
    peers: tuple[PresentPeer, ...]


def parse_dump(text: str) -> Present:
    own, *lines = text.splitlines()
    _, public_key, listen_port, _ = own.split("\t")
    return Present(_unless(public_key), int(listen_port), tuple(_peer(line) for line in lines))


def peer_changes(present: Present, wanted: Iterable[Peer]) -> list[list[str]]:
    """Arguments of `wg set`, for each peer that changes."""
    wanted = tuple(wanted)
    keys = {peer.public_key for peer in wanted}
    known = {peer.public_key: peer for peer in present.peers}
    gone = [["peer", key, "remove"] for key in known if key not in keys]
    return gone + [
        changes for peer in wanted if (changes := _changes_of(known.get(peer.public_key), peer)) is not None
    ]


def _changes_of(present: PresentPeer | None, wanted: Peer) -> list[str] | None:
    changes: list[str] = []
    if present is None or present.allowed != (f"{wanted.address}/32",):
        changes += ["allowed-ips", f"{wanted.address}/32"]
    # One that dials us is wherever it last came from.
    if wanted.endpoint is not None and (present is None or present.endpoint != wanted.endpoint):
        changes += ["endpoint", wanted.endpoint]
    if (present.keepalive_s if present is not None else 0) != wanted.keepalive_s:
        changes += ["persistent-keepalive", str(wanted.keepalive_s)]
    return ["peer", wanted.public_key, *changes] if changes else None


def _peer(line: str) -> PresentPeer:
    public_key, _, endpoint, allowed, handshake_at_s, _, _, keepalive = line.split("\t")
    return PresentPeer(
        public_key,
        _unless(endpoint),
        tuple(allowed.split(",")) if allowed != "(none)" else (),
        int(handshake_at_s),
        0 if keepalive == "off" else int(keepalive),
    )


def _unless(text: str) -> str | None:
    return None if text == "(none)" else text

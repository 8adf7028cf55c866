"""The firewall around the tunnel, as chains. Pure.

WireGuard itself lets a machine speak from its own address only. Where it may speak to is said here:

- On a hub, a machine reaches the door (the pull proxy) and nothing else: no other port, no other address of the hub, no
  other machine, no network behind the hub. Containers of the hub do not reach the tunnel, and of its users only
  Moorage's do.
- On a machine, a hub reaches the node role and the replicas' ports. Nothing else comes in, containers do not get out.
- Nobody reaches an address of the tunnel by another way.

There is no IPv6 in the tunnel: a peer's addresses are IPv4, so WireGuard drops the rest.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from moorage.engines.docker.iptables import Chain
from moorage.tunnel.addresses import DOOR_PORT

_REPLIES = "-m conntrack --ctstate RELATED,ESTABLISHED"
_DOOR_CONNECTIONS = 64
"""Of one machine at a time. A pull has four."""
_DOOR_CONNECTIONS_PER_S, _DOOR_CONNECTIONS_AT_ONCE = 20, 200
"""Of one machine. Who is refused there has to come again."""


@dataclass(frozen=True)
class NodePorts:
    """Of a machine, in the tunnel."""

    node: int
    """Where its node role listens."""
    replicas: tuple[int, int]
    """First and last."""


def hub_chains(interface: str, address: str) -> tuple[Chain, ...]:
    arriving = _name("IN", interface)
    return (
        _chain(
            "IN",
            interface,
            "INPUT",
            f"-i {interface}",
            f"-A {arriving} {_REPLIES} -j ACCEPT",
            f"-A {arriving} -d {address}/32 -p tcp -m tcp --dport {DOOR_PORT} -j ACCEPT",
            f"-A {arriving} -j DROP",
        ),
        _chain("FI", interface, "FORWARD", f"-i {interface}", f"-A {_name('FI', interface)} -j DROP"),
        _chain("FO", interface, "FORWARD", f"-o {interface}", f"-A {_name('FO', interface)} -j DROP"),
        *_only_by_the_tunnel(interface, address),
    )


def machine_chains(interface: str, address: str, hubs: Iterable[str], ports: NodePorts) -> tuple[Chain, ...]:
    arriving, forwarded, leaving = (_name(kind, interface) for kind in ("IN", "FI", "FO"))
    first, last = ports.replicas
    known = sorted(hubs)
    return (
        _chain(
            "IN",
            interface,
            "INPUT",
            f"-i {interface}",
            f"-A {arriving} {_REPLIES} -j ACCEPT",
            *(
                f"-A {arriving} -s {hub}/32 -d {address}/32 -p tcp -m tcp --dport {port} -j ACCEPT"
                for hub in known
                for port in (ports.node, f"{first}:{last}")
            ),
            f"-A {arriving} -j DROP",
        ),
        # A published port is a container's by the time that it is forwarded; whether Docker lets it pass is Docker's.
        _chain(
            "FI",
            interface,
            "FORWARD",
            f"-i {interface}",
            f"-A {forwarded} {_REPLIES} -j RETURN",
            *(
                f"-A {forwarded} -s {hub}/32 -p tcp -m conntrack --ctstate DNAT --ctorigdst {address} "
                f"--ctorigdstport {first}:{last} -j RETURN"
                for hub in known
            ),
            f"-A {forwarded} -j DROP",
        ),
        _chain(
            "FO",
            interface,
            "FORWARD",
            f"-o {interface}",
            f"-A {leaving} {_REPLIES} -j RETURN",
            f"-A {leaving} -j DROP",
        ),
        *_only_by_the_tunnel(interface, address),
    )


def _only_by_the_tunnel(interface: str, address: str) -> tuple[Chain, ...]:
    """Linux answers for an address on all interfaces: a neighbour who knows it could send packets there past the tunnel."""
    arriving, forwarded = _name("LI", interface), _name("LF", interface)
    return (
        _chain(
            "LI",
            interface,
            "INPUT",
            f"-d {address}/32 ! -i {interface}",
            f"-A {arriving} -i lo -j RETURN",
            f"-A {arriving} -j DROP",
        ),
        _chain(
            "LF",
            interface,
            "FORWARD",
            f"! -i {interface} -m conntrack --ctstate NEW --ctorigdst {address}",
            f"-A {forwarded} -j DROP",
        ),
    )


def user_chain(interface: str, user_ids: Iterable[int]) -> Chain:
    """Of this machine's users, only these begin a conversation in the tunnel."""
    name = _name("US", interface)
    return _chain(
        "US",
        interface,
        "OUTPUT",
        f"-o {interface} -m conntrack --ctstate NEW",
        *(f"-A {name} -m owner --uid-owner {user_id} -j RETURN" for user_id in sorted(user_ids)),
        f"-A {name} -j REJECT --reject-with icmp-port-unreachable",
    )


def door_chain(interface: str) -> Chain:
    """Whoever connects holds a descriptor of the proxy's, and has its attention."""
    name = _name("DO", interface)
    pace = f"--hashlimit-above {_DOOR_CONNECTIONS_PER_S}/sec --hashlimit-burst {_DOOR_CONNECTIONS_AT_ONCE}"
    by_machine = f"--hashlimit-mode srcip --hashlimit-name moort{interface[-8:]}"
    held = f"--connlimit-above {_DOOR_CONNECTIONS} --connlimit-mask 32 --connlimit-saddr"
    return _chain(
        "DO",
        interface,
        "INPUT",
        f"-i {interface} -p tcp -m conntrack --ctstate NEW",
        f"-A {name} -p tcp -m hashlimit {pace} {by_machine} -j DROP",
        f"-A {name} -p tcp -m connlimit {held} -j DROP",
    )


def chain_names(interface: str) -> frozenset[str]:
    return frozenset(_name(kind, interface) for kind in ("IN", "FI", "FO", "LI", "LF", "US", "DO"))


def _chain(kind: str, interface: str, entered_from: str, condition: str, *rules: str) -> Chain:
    return Chain(_name(kind, interface), entered_from, condition, rules)


def _name(kind: str, interface: str) -> str:
    return f"MOOR-T{kind}-{interface}"

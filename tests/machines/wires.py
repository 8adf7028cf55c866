"""What lies between the installation and the machines of the lab:

installation (the network that this process sees) ── internet ──┬── rack-1
                                                                ├── rack-2
                                                                └── router ── attic: it translates addresses, and lets nothing in

The internet leads on to the real one: machines fetch their packages there.
"""

import contextlib
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from tests.tunnel.places import Place, connect, forwards, places

HERE = "10.92.0.1"
NEAR = ("rack-1", "rack-2")
BEHIND = "attic"
NAMES = (*NEAR, BEHIND)
_NETWORK = "10.92.0.0/16"
_HOME_NETWORK = "192.168.50.0/24"
_NOBODYS = ("169.254.0.0/16", "192.168.0.0/16")
"""What clouds and homes have is not to be found by way of the internet."""


@dataclass(frozen=True)
class Wires:
    places: dict[str, Place]

    def cut(self, machine: str) -> None:
        """Both ways, as by scissors."""
        self.places["internet"].sh(f"ip link set to-{_next_to(machine)} down")

    def mend(self, machine: str) -> None:
        self.places["internet"].sh(f"ip link set to-{_next_to(machine)} up")

    @contextlib.contextmanager
    def drops_what_it_sends(self, machine: str) -> Iterator[None]:
        """The installation hears nothing of it; it hears the installation."""
        with self._drops(f"-i to-{_next_to(machine)}"):
            yield

    @contextlib.contextmanager
    def drops_what_it_is_sent(self, machine: str) -> Iterator[None]:
        with self._drops(f"-o to-{_next_to(machine)}"):
            yield

    @contextlib.contextmanager
    def _drops(self, way: str) -> Iterator[None]:
        internet = self.places["internet"]
        internet.sh(f"iptables -I FORWARD {way} -j DROP")
        try:
            yield
        finally:
            internet.sh(f"iptables -D FORWARD {way} -j DROP")


@contextlib.contextmanager
def wired() -> Iterator[Wires]:
    with places(*NAMES, "internet", "router") as made, _a_way_out(made["internet"]):
        internet, router = made["internet"], made["router"]
        forwards(internet)
        forwards(router)
        for number, name in enumerate(NEAR, 1):
            _lead(internet, made[name], name, f"10.92.{number}")
        _lead(internet, router, "router", "10.92.9")
        # Whoever knocks at a home's own address gets as far as its router, and nothing of it leaves this machine.
        internet.sh(f"ip route add {_HOME_NETWORK} via 10.92.9.2")
        for network in _NOBODYS:
            internet.sh(f"ip route add unreachable {network}")
        connect(made[BEHIND], "192.168.50.2/24", router, "192.168.50.1/24")
        made[BEHIND].sh("ip route add default via 192.168.50.1")
        router.sh(f"iptables -t nat -A POSTROUTING -s {_HOME_NETWORK} -j MASQUERADE")
        for chain in ("FORWARD", "INPUT"):
            router.sh(f"iptables -A {chain} -s {_HOME_NETWORK} -j ACCEPT")
            router.sh(f"iptables -A {chain} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
            router.sh(f"iptables -A {chain} -j DROP")
        yield Wires(made)


def _next_to(machine: str) -> str:
    return "router" if machine == BEHIND else machine


def _lead(internet: Place, place: Place, name: str, network: str) -> None:
    _sh(f"ip link add to-{name} netns {internet.name} type veth peer name internet netns {place.name}")
    for end, link, address in ((internet, f"to-{name}", 1), (place, "internet", 2)):
        end.sh(f"ip address add {network}.{address}/24 dev {link}")
        end.sh(f"ip link set {link} up")
    place.sh(f"ip route add default via {network}.1")


@contextlib.contextmanager
def _a_way_out(internet: Place) -> Iterator[None]:
    """The installation's network is the one that machines come through, as far as packages go."""
    cable = f"lab{uuid.uuid4().hex[:6]}"
    rules = (
        f"FORWARD -i {cable} -j ACCEPT",
        f"FORWARD -o {cable} -j ACCEPT",
        f"POSTROUTING -t nat -s {_NETWORK} ! -o {cable} -j MASQUERADE",
    )
    _sh(f"ip link add {cable} type veth peer name world netns {internet.name}")
    try:
        _sh(f"ip address add {HERE}/24 dev {cable}")
        _sh(f"ip link set {cable} up")
        for network in (_NETWORK, _HOME_NETWORK):
            _sh(f"ip route add {network} via 10.92.0.2")
        internet.sh("ip address add 10.92.0.2/24 dev world")
        internet.sh("ip link set world up")
        internet.sh(f"ip route add default via {HERE}")
        _sh("sysctl -qw net.ipv4.ip_forward=1")
        for rule in rules:
            _sh(f"iptables -I {rule}")
        yield
    finally:
        for rule in rules:
            subprocess.run(f"iptables -D {rule}".split(), check=False, capture_output=True)
        subprocess.run(["ip", "link", "delete", cable], check=False)


def _sh(command: str) -> None:
    subprocess.run(command.split(), check=True, timeout=30)

"""A hub and machines of a test, as they stand in the world:

hub ── internet ── near                       dials the hub directly
           ├────── router ── behind           a router that translates addresses and lets nothing in
           └────── third                      comes and goes
neighbour ─ hub, tenant ─ near                containers there: whatever they send is forwarded
"""

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from moorage.tunnel.addresses import NODE_PORT as NODE_PORT
from moorage.tunnel.interface import TunnelEnd, TunnelInterface
from moorage.tunnel.keys import new_private_key, public_key_of
from moorage.tunnel.peers import HubEnd, MachineEnd, hub_peers, machine_peers
from moorage.tunnel.rules import NodePorts, door_chain, hub_chains, machine_chains, user_chain
from tests.tunnel.places import Place, connect, forwards, places

HUB_PORT = 51820
HUB_PUBLIC = "10.90.0.2"
HUB_ADDRESS = "198.19.0.1"

REPLICA_PORTS = (20000, 20099)
MACHINES = {"near": "198.19.1.0", "behind": "198.19.1.1", "third": "198.19.1.2"}
ALL = (*MACHINES, "hub", "internet", "router", "tenant", "neighbour")


@dataclass
class End:
    place: Place
    interface: TunnelInterface
    address: str
    private_key: str = field(default_factory=new_private_key)

    @property
    def public_key(self) -> str:
        return public_key_of(self.private_key)


@dataclass
class Town:
    places: dict[str, Place]
    hub: End
    machines: dict[str, End]
    known: set[str] = field(default_factory=set)
    """Machines whose rows are there."""

    def hub_end(self) -> TunnelEnd:
        rows = [
            MachineEnd(name, self.machines[name].address, self.machines[name].public_key)
            for name in self.known
        ]
        name = self.hub.interface.name
        return TunnelEnd(
            self.hub.private_key,
            HUB_ADDRESS,
            ("198.19.0.0/16",),
            hub_peers(rows).peers,
            HUB_PORT,
            hub_chains(name, HUB_ADDRESS),
            (user_chain(name, (0,)), door_chain(name)),
        )

    def machine_end(self, name: str) -> TunnelEnd:
        end = self.machines[name]
        hub = HubEnd("hub", HUB_ADDRESS, self.hub.public_key, f"{HUB_PUBLIC}:{HUB_PORT}")
        return TunnelEnd(
            end.private_key,
            end.address,
            (f"{HUB_ADDRESS}/32",),
            machine_peers([hub]),
            None,
            machine_chains(
                end.interface.name, end.address, [HUB_ADDRESS], NodePorts(NODE_PORT, REPLICA_PORTS)
            ),
        )

    def apply_hub(self) -> None:
        self.hub.place.do(self.hub.interface.ensure(self.hub_end()))

    def apply_machine(self, name: str) -> None:
        self.machines[name].place.do(self.machines[name].interface.ensure(self.machine_end(name)))

    def redial(self, name: str) -> None:
        """As a machine does that finds no open door."""
        self.machines[name].place.do(self.machines[name].interface.redial(self.machine_end(name)))

    def join(self, *names: str) -> None:
        self.known.update(names)
        self.apply_hub()
        for name in names:
            self.apply_machine(name)

    def leave(self, name: str) -> None:
        self.known.discard(name)
        self.apply_hub()

    def betray(self, name: str) -> None:
        """This machine's owner takes its firewall away, and sends whatever it likes into the tunnel."""
        end = self.machines[name]
        wanted = self.machine_end(name)
        end.place.do(end.interface.take_down())
        open_gates = replace(wanted, chains=(), chains_if_possible=(), routes=("0.0.0.0/1", "128.0.0.0/1"))
        end.place.sh(f"ip route add {HUB_PUBLIC}/32 via {_gateway_of(name)}")
        end.place.do(end.interface.ensure(open_gates))
        end.place.sh(f"wg set {end.interface.name} peer {self.hub.public_key} allowed-ips 0.0.0.0/0")


@contextlib.contextmanager
def town(folder: Path) -> Iterator[Town]:
    with places(*ALL) as made:
        internet, router = made["internet"], made["router"]
        for place in (internet, router, made["hub"], made["near"]):
            forwards(place)
        connect(made["hub"], f"{HUB_PUBLIC}/24", internet, "10.90.0.1/24")
        made["hub"].sh("ip route add default via 10.90.0.1")
        for name, number in (("near", 1), ("third", 3)):
            connect(made[name], f"10.90.{number}.2/24", internet, f"10.90.{number}.1/24")
            made[name].sh(f"ip route add default via {_gateway_of(name)}")
        connect(router, "10.90.2.2/24", internet, "10.90.2.1/24")
        router.sh("ip route add default via 10.90.2.1")
        connect(made["behind"], "192.168.50.2/24", router, "192.168.50.1/24")
        made["behind"].sh(f"ip route add default via {_gateway_of('behind')}")
        router.sh("iptables -t nat -A POSTROUTING -s 192.168.50.0/24 -j MASQUERADE")
        for chain in ("FORWARD", "INPUT"):
            router.sh(f"iptables -A {chain} -s 192.168.50.0/24 -j ACCEPT")
            router.sh(f"iptables -A {chain} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
            router.sh(f"iptables -A {chain} -j DROP")
        connect(made["tenant"], "172.30.1.2/24", made["near"], "172.30.1.1/24")
        connect(made["neighbour"], "172.30.2.2/24", made["hub"], "172.30.2.1/24")
        made["tenant"].sh("ip route add default via 172.30.1.1")
        made["neighbour"].sh("ip route add default via 172.30.2.1")
        ends = {name: _end(made[name], folder, address) for name, address in MACHINES.items()}
        whole = Town(made, _end(made["hub"], folder, HUB_ADDRESS), ends)
        try:
            yield whole
        finally:
            for end in (whole.hub, *whole.machines.values()):
                end.place.do(end.interface.take_down())


def _end(place: Place, folder: Path, address: str) -> End:
    # `wg` finds an interface of `wireguard-go` by its name in a folder that all places share.
    name = f"mwg-{uuid.uuid4().hex[:8]}"
    run_dir, log_dir = folder / name / "run", folder / name / "log"
    for made in (run_dir, log_dir):
        made.mkdir(parents=True)
    return End(place, TunnelInterface(name, run_dir, log_dir), address)


def _gateway_of(name: str) -> str:
    return {"near": "10.90.1.1", "behind": "192.168.50.1", "third": "10.90.3.1"}[name]

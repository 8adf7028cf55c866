"""A canary in a replica knocks at everything that is not its business: this machine, its neighbours, private networks.

Nothing that it sends can leave the machine, whatever becomes of the rules: every address outside is routed to a device
of the test's own, which shows what would have been sent out.
"""

import asyncio
import ipaddress
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import cast

import aiohttp
import pytest

from moorage.engines.docker import firewall
from moorage.engines.docker.daemon import ensure_engine
from moorage.engines.docker.network import BridgeNetwork
from moorage.kit.settings import Settings
from moorage.outbound.networks import NOT_PUBLIC
from tests.engine.conftest import DockerWorld
from tests.engine.contract import spec_of
from tests.engine.isolation_support import (
    HAS_DEBIAN,
    NEEDS_DEBIAN,
    addresses,
    build_python_images,
    kill_engine,
    own_engine_of,
    python_spec,
    script_of,
    until_open,
)
from tests.engine.own_device import ip, leading_to_a_device

pytestmark = [
    pytest.mark.skipif(not HAS_DEBIAN, reason=NEEDS_DEBIAN),
    pytest.mark.usefixtures("_images"),
]

SERVICES = ("postgres", "api", "gateway", "statistics", "engine")
METADATA = ("169.254.169.254", "169.254.170.2", "168.63.129.16")
PRIVATE = (
    "10.231.77.1",
    "172.16.231.77",
    "192.168.231.77",
    "100.64.231.77",
    "169.254.231.77",
    "198.18.231.77",
    "192.88.99.77",
)
ANSWERS = {"connected", "refused", "answered"}
"""A refusal is an answer too: somebody was there to give it."""
Target = tuple[str, str, int]


@pytest.fixture(scope="module")
def _images(docker_host: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    build_python_images(docker_host, tmp_path_factory.mktemp("isolation-cache"))


@dataclass
class Host:
    """Services on every address of this machine, as a careless operator's might be, and who was heard there."""

    ports: dict[str, int] = field(default_factory=dict)
    udp_port: int = 0
    heard: list[str] = field(default_factory=list)


class _Echo(asyncio.DatagramProtocol):
    def __init__(self, host: Host) -> None:
        self._host = host

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        self._host.heard.append(f"udp from {address[0]}")
        self._transport.sendto(data, address)


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    opened, servers = Host(), []
    for name in SERVICES:

        async def answer(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str = name
        ) -> None:
            opened.heard.append(f"{name} from {writer.get_extra_info('peername')[0]}")
            writer.close()

        server = await asyncio.start_server(answer, "0.0.0.0", 0)
        servers.append(server)
        opened.ports[name] = int(server.sockets[0].getsockname()[1])
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Echo(opened), local_addr=("0.0.0.0", 0)
    )
    opened.udp_port = int(transport.get_extra_info("sockname")[1])
    yield opened
    transport.close()
    for server in servers:
        server.close()


@dataclass
class Tap:
    """Where packets to addresses outside come out; `seen` are their destinations."""

    seen: list[str] = field(default_factory=list)


@pytest.fixture
async def tap() -> AsyncIterator[Tap]:
    opened = Tap()
    # The machine's own way to its metadata service is cut as well, for the seconds that this takes.
    with leading_to_a_device((*METADATA, *PRIVATE), own="198.18.231.1") as device:

        def receive() -> None:
            packet = os.read(device, 65536)
            if packet[0] >> 4 == 4:
                opened.seen.append(str(ipaddress.IPv4Address(packet[16:20])))

        asyncio.get_running_loop().add_reader(device, receive)
        try:
            yield opened
        finally:
            asyncio.get_running_loop().remove_reader(device)


@dataclass
class Scene:
    world: DockerWorld
    host: Host
    tap: Tap
    canary_address: str
    gateway: str
    targets: dict[str, Target]

    @property
    def network(self) -> BridgeNetwork:
        return BridgeNetwork(self.world.installation_id)

    async def outcomes(self, names: Iterator[str] | None = None) -> dict[str, str]:
        chosen = {name: self.targets[name] for name in names} if names is not None else self.targets
        url = f"http://{self.canary_address}:8000/"
        async with aiohttp.ClientSession() as session, session.post(url, json=chosen) as response:
            outcomes: dict[str, str] = await response.json()
        return outcomes

    async def assert_nothing_is_reached(self, moment: str, *, rules_in_front: bool = True) -> None:
        if rules_in_front:
            self.assert_rules_are_in_front()
        before = _dropped(self.network)
        outcomes = await self.outcomes()
        dropped = {rule: count - before.get(rule, 0) for rule, count in _dropped(self.network).items()}
        reached = {name: outcome for name, outcome in outcomes.items() if outcome in ANSWERS}
        print(
            f"\n{moment}: {len(reached)} of {len(outcomes)} reached, {sum(dropped.values())} packets dropped"
        )
        assert reached == {}
        assert self.host.heard == []
        assert self.tap.seen == []
        if rules_in_front:
            # Silence alone proves little. Each packet is accounted for by the very rule that is meant for it.
            for rule, least in self._expected_drops().items():
                assert dropped[rule] >= least, rule

    def assert_rules_are_in_front(self) -> None:
        for program, wanted in (
            ("iptables", firewall.chains(self.network.bridge, self.network.suffix)),
            ("ip6tables", firewall.chains_v6(self.network.bridge, self.network.suffix)),
        ):
            present = _run(program, "-w", "10", "-S").splitlines()
            assert all(firewall.is_enforced(chain, present) for chain in wanted)
            # Neither may anything be let through before it comes to DOCKER-USER.
            forward = [line for line in present if line.startswith("-A FORWARD ")]
            assert program == "ip6tables" or not [
                line for line in forward[: forward.index("-A FORWARD -j DOCKER-USER")] if "ACCEPT" in line
            ]

    def _expected_drops(self) -> dict[str, int]:
        """For each rule, how many of the targets it must have stopped at least one packet of."""
        expected: dict[str, int] = {}
        own = _own_addresses()
        for name, (kind, address, _) in self.targets.items():
            if name == "stranger on another bridge":
                continue  # Docker keeps bridges apart too, and after a restart its rule for that comes first
            parsed = ipaddress.ip_address(address)
            if kind.endswith("6") or parsed.is_loopback or parsed.is_multicast or kind == "broadcast":
                continue
            if address in own:
                expected["host"] = expected.get("host", 0) + 1
                continue
            (rule,) = (network for network in NOT_PUBLIC if parsed in ipaddress.ip_network(network))
            expected[rule] = expected.get(rule, 0) + 1
        return expected


@pytest.fixture
async def scene(docker_world: DockerWorld, host: Host, tap: Tap) -> Scene:
    assert docker_world.engine.network_isolation.reason is None
    neighbour = await spec_of(docker_world, "serves")
    neighbour_address, gateway = await addresses(docker_world, await docker_world.engine.start(neighbour))
    await docker_world.other_engine.prepare()
    stranger = await docker_world.other_engine.start(await spec_of(docker_world, "serves"))
    stranger_address, other_gateway = await addresses(docker_world, stranger)
    canary = await docker_world.engine.start(
        await python_spec(docker_world, script_of(_knock, _serve, call="_serve()"))
    )
    canary_address, _ = await addresses(docker_world, canary)
    for address in (neighbour_address, stranger_address, canary_address):
        # That the machine itself gets in shows that there is something to be kept out of.
        await until_open(docker_world, address, 8000)

    targets: dict[str, Target] = {
        "metadata service": ("tcp", METADATA[0], 80),
        "metadata service of a task": ("tcp", METADATA[1], 80),
        "metadata service of another cloud": ("tcp", METADATA[2], 80),
        "metadata service by IPv6": ("tcp6", "fd00:ec2::254", 80),
        "neighbour": ("tcp", neighbour_address, 8000),
        "neighbour by ping": ("icmp", neighbour_address, 0),
        "neighbour's published port": ("tcp", gateway, neighbour.host_port),
        "stranger on another bridge": ("tcp", stranger_address, 8000),
        "bridge by ping": ("icmp", gateway, 0),
        "ssh of the machine": ("tcp", gateway, 22),
        "resolver of the machine": ("udp", gateway, 53),
        "host by UDP": ("udp", gateway, host.udp_port),
        "everybody on the bridge": ("broadcast", "255.255.255.255", host.udp_port),
        "all hosts": ("udp", "224.0.0.1", host.udp_port),
        "all nodes by IPv6": ("udp6", "ff02::1", host.udp_port),
        "link-local by IPv6": ("tcp6", "fe80::1", host.ports["api"]),
        "private by IPv6": ("tcp6", "fd00::2", host.ports["api"]),
        "other installation's bridge": ("tcp", other_gateway, host.ports["api"]),
    }
    targets |= {f"{name} by bridge": ("tcp", gateway, port) for name, port in host.ports.items()}
    targets |= {f"{name} by own address": ("tcp", _own_address(), port) for name, port in host.ports.items()}
    targets |= {f"private {address}": ("tcp", address, 443) for address in PRIVATE}
    return Scene(docker_world, host, tap, canary_address, gateway, targets)


@pytest.mark.long
async def test_nothing_is_reached(scene: Scene) -> None:
    assert len(scene.targets) >= 25
    await scene.assert_nothing_is_reached("at first")


@pytest.mark.long
async def test_nothing_is_reached_while_and_after_the_engine_restarts(
    scene: Scene, engine_settings: Settings
) -> None:
    own = own_engine_of(engine_settings, scene.world.docker_host)
    await kill_engine(own, scene.world)
    await scene.assert_nothing_is_reached("while the engine is dead")
    assert await ensure_engine(engine_settings, print) == scene.world.docker_host
    await scene.assert_nothing_is_reached("with a new engine, before it is prepared", rules_in_front=False)
    await scene.world.engine.prepare()
    await scene.assert_nothing_is_reached("with a new engine")


@pytest.mark.long
async def test_without_the_rules_it_would_be(scene: Scene) -> None:
    """What the canary would reach otherwise, so that its silence means something."""
    names = [name for name, target in scene.targets.items() if target[1] in (scene.gateway, _own_address())]
    names = [name for name in names if name not in ("ssh of the machine", "resolver of the machine")]
    outside = [name for name, target in scene.targets.items() if target[1] in (*METADATA, *PRIVATE)]
    closed = {"neighbour's published port"}  # it is published on loopback, so the machine refuses: an answer
    await firewall.withdraw(scene.network.bridge, scene.network.suffix)
    outcomes = await scene.outcomes(iter(names + outside))
    await scene.world.engine.prepare()
    expected = {"tcp": "connected", "udp": "answered", "icmp": "answered"}
    assert {name: outcomes[name] for name in names} == {
        name: "refused" if name in closed else expected[scene.targets[name][0]] for name in names
    }
    assert {*METADATA, *PRIVATE} == set(scene.tap.seen)
    scene.host.heard.clear()
    scene.tap.seen.clear()
    await scene.assert_nothing_is_reached("with the rules again")


@pytest.mark.long
async def test_nothing_is_reached_past_a_rule_of_somebody_else(scene: Scene) -> None:
    """A firewall program that is reloaded after Docker puts its own in front of Docker's, and may let things pass."""
    accept = ("-i", scene.network.bridge, "-j", "ACCEPT")
    for chain in ("INPUT", "FORWARD"):
        _run("iptables", "-w", "10", "-I", chain, "1", *accept)
    try:
        await scene.world.engine.prepare()
        assert scene.world.engine.network_isolation.reason is None
        await scene.assert_nothing_is_reached("past foreign rules")
    finally:
        for chain in ("INPUT", "FORWARD"):
            _run("iptables", "-w", "10", "-D", chain, *accept)


def _dropped(network: BridgeNetwork) -> dict[str, int]:
    """Packets that each of our rules dropped: by the network that it is for, and "host" for all to this machine."""
    counts: dict[str, int] = {}
    for chain in firewall.chains(network.bridge, network.suffix):
        for line in _run("iptables", "-w", "10", "-nvx", "-L", chain.name).splitlines():
            columns = line.split()
            if len(columns) >= 9 and columns[2] == "DROP":
                # A single address is listed without its "/32".
                destination = str(ipaddress.ip_network(columns[8]))
                counts["host" if chain.entered_from == "INPUT" else destination] = int(columns[0])
    return counts


def _own_addresses() -> set[str]:
    lines = ip("-o", "addr").splitlines()
    return {line.split()[3].partition("/")[0] for line in lines}


def _own_address() -> str:
    """One that is neither loopback nor a bridge's: how the world knows this machine."""
    for line in ip("-o", "-f", "inet", "addr").splitlines():
        device, address = line.split()[1], line.split()[3].partition("/")[0]
        if not device.startswith(("lo", "moor", "docker", "br-", "veth")):
            return address
    pytest.skip("this machine has no address but its bridges'")


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout


# What follows runs inside the container.


def _knock(kind: str, address: str, port: int) -> str:
    import socket

    families = {"6": socket.AF_INET6}
    family = families.get(kind[-1], socket.AF_INET)
    stream = kind.startswith("tcp")
    protocol = 1 if kind == "icmp" else 0
    with socket.socket(family, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM, protocol) as knocking:
        knocking.settimeout(0.5)
        try:
            if kind == "broadcast":
                knocking.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                knocking.sendto(b"knock", (address, port))
                knocking.recv(100)
                return "answered"
            knocking.connect((address, port))
            if stream:
                return "connected"
            knocking.send(b"\x08\x00\x00\x00\x00\x00\x00\x01" if kind == "icmp" else b"knock")
            knocking.recv(100)
        except TimeoutError:
            return "silent"
        except ConnectionRefusedError:
            return "refused"
        except OSError as exc:
            return f"unreachable ({exc.strerror})"
        return "answered"


def _serve() -> None:
    import json
    from concurrent.futures import ThreadPoolExecutor
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            targets = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with ThreadPoolExecutor(8) as threads:
                tries = {name: threads.submit(_knock, *target) for name, target in targets.items()}
                outcomes = {name: future.result() for name, future in tries.items()}
            body = json.dumps(outcomes).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    HTTPServer(("0.0.0.0", 8000), Handler).serve_forever()

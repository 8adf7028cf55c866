"""Tables of the kernel in which the packets of all containers meet: none fills them for the others.

Nothing leaves the machine: the public address that is sent to leads to a device of the test's own.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.engines.docker import firewall, host_limits, iptables
from moorage.engines.docker.network import BridgeNetwork
from tests.engine.conftest import DockerWorld
from tests.engine.isolation_support import (
    HAS_DEBIAN,
    NEEDS_DEBIAN,
    addresses,
    answer_of,
    build_python_images,
    python_spec,
    script_of,
)
from tests.engine.own_device import leading_to_a_device

CONNECTIONS = Path("/proc/net/nf_conntrack")
PUBLIC = "11.231.77.1"
TRIES = 6000
KERNELS_OWN = {"net/ipv4/neigh/default/gc_thresh2": "512", "net/ipv4/neigh/default/gc_thresh3": "1024"}
pytestmark = [
    # There is one such address, and one table of neighbours, for all tests.
    pytest.mark.quiet,
    pytest.mark.skipif(not HAS_DEBIAN, reason=NEEDS_DEBIAN),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices"),
    pytest.mark.skipif(not CONNECTIONS.exists(), reason="this kernel does not list connections"),
    pytest.mark.usefixtures("_images", "_nowhere"),
]


@pytest.fixture(scope="module")
def _images(docker_host: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    build_python_images(docker_host, tmp_path_factory.mktemp("isolation-cache"))


@pytest.fixture
def _nowhere() -> Iterator[None]:
    """A device that nobody reads from, and the way to the public address."""
    with leading_to_a_device([PUBLIC]):
        yield


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.long
async def test_one_replica_has_a_share_of_the_connections(docker_world: DockerWorld, protocol: str) -> None:
    script = script_of(_connect_often, call=f"_connect_often({protocol!r}, {PUBLIC!r}, {TRIES})")
    began_s = time.monotonic()
    hog = await docker_world.engine.start(await python_spec(docker_world, script))
    hog_address, _ = await addresses(docker_world, hog)

    async def has_tried_all() -> bool:
        return any("tried" in line for line in await docker_world.engine.last_lines(hog.engine_id, 5))

    await docker_world.until(has_tried_all)
    passed_s = time.monotonic() - began_s
    held = _connections_of(hog_address, protocol)
    most = {"tcp": 1000 + 50 * (passed_s + 1), "udp": 4096}[protocol]
    print(f"\n{protocol}: {held} of {TRIES} connections in {passed_s:.1f} s")
    assert 500 <= held <= most + 64  # the processors count each for itself for a moment

    script = script_of(_connect_often, call=f"_connect_often({protocol!r}, {PUBLIC!r}, 20)")
    neighbour = await docker_world.engine.start(await python_spec(docker_world, script))
    neighbour_address, _ = await addresses(docker_world, neighbour)

    async def has_its_own() -> bool:
        return _connections_of(neighbour_address, protocol) >= 20

    await docker_world.until(has_its_own)


async def test_the_share_is_set_once_and_taken_back(docker_world: DockerWorld) -> None:
    network = BridgeNetwork(docker_world.installation_id)
    present = await iptables.present_rules("iptables")
    assert firewall.is_enforced(firewall.share_chain(network.bridge, network.suffix), present)
    before = [line for line in present if network.suffix in line]
    await docker_world.engine.prepare()
    assert await _rules_of(network) == before
    await docker_world.engine.dismantle()
    assert await _rules_of(network) == []


async def test_one_replica_cannot_take_all_places_for_neighbours(docker_world: DockerWorld) -> None:
    """Addresses next door that somebody sent to have one table for all containers and the machine itself."""
    settings = {host_limits.SYSTEM_SETTINGS / name: value for name, value in KERNELS_OWN.items()}
    before = {file: file.read_text() for file in settings}
    try:
        for file, value in settings.items():
            file.write_text(value)
        await docker_world.engine.prepare()
        script = script_of(_knock_next_door, call="_knock_next_door(3000, for_s=600)")
        hog = await docker_world.engine.start(await python_spec(docker_world, script))

        async def has_knocked() -> bool:
            return any("knocked" in line for line in await docker_world.engine.last_lines(hog.engine_id, 5))

        await docker_world.until(has_knocked)
        script = script_of(_knock_next_door, call="_knock_next_door(30, for_s=0)")
        assert await answer_of(docker_world, await python_spec(docker_world, script)) == {"knocked": 30}
    finally:
        for file, value in before.items():
            file.write_text(value)


async def _rules_of(network: BridgeNetwork) -> list[str]:
    return [line for line in await iptables.present_rules("iptables") if network.suffix in line]


def _connections_of(address: str, protocol: str) -> int:
    lines = CONNECTIONS.read_text().splitlines()
    return sum(f" src={address} dst={PUBLIC} " in line and f" {protocol} " in line for line in lines)


# What follows runs inside the container.


def _connect_often(protocol: str, address: str, times: int) -> None:
    import socket
    import time

    kept = []
    for number in range(times):
        port = 1024 + number
        if protocol == "udp":
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                one.sendto(b"x", (address, port))
            continue
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex((address, port))
        kept.append(connection)
    print(f"tried {times}", flush=True)
    time.sleep(600)


def _knock_next_door(doors: int, for_s: float) -> None:
    """The kernel makes an entry before it sends anything, and says so when it cannot."""
    import json
    import socket
    import time

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect(("192.0.2.1", 9))
        network = ".".join(one.getsockname()[0].split(".")[:2])
    until_s = time.monotonic() + for_s
    while True:
        knocked, last = 0, ""
        for door in range(doors):
            # Each its own: what waits for an unknown door counts for the socket that sent it.
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR
                try:
                    sender.sendto(b"x", (f"{network}.{100 + door // 250}.{1 + door % 250}", 9))
                    knocked += 1
                except OSError as exc:
                    last = str(exc)
        print(json.dumps({"knocked": knocked} | ({"last": last} if last else {})), flush=True)
        if time.monotonic() >= until_s:
            return
        time.sleep(0.5)

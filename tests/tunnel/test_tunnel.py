"""The tunnel for real: WireGuard between network namespaces, one of them behind a router that lets nothing in."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.kit.clock import system_clock
from moorage.kit.database import Database, Listener
from moorage.kit.settings import Settings
from moorage.machines.hub import TunnelHub
from moorage.tunnel.addresses import DOOR_PORT
from moorage.tunnel.interface import take_down_all
from moorage.tunnel.keys import load_or_create_private_key, new_private_key
from moorage.tunnel.rules import chain_names
from tests.tunnel.places import answers, listen, listen_udp, tell_udp
from tests.tunnel.streams import serve_stream, start_reading
from tests.tunnel.town import HUB_ADDRESS, HUB_PUBLIC, MACHINES, NODE_PORT, REPLICA_PORTS, End, Town

OTHER_PORTS = (22, 80, 443, 2375, 5432, 7422, NODE_PORT, 8080, 8081, 20000)


def test_traffic_flows_both_ways(town: Town) -> None:
    town.join("near", "behind")
    town.hub.place.do(listen(DOOR_PORT))
    for name in ("near", "behind"):
        machine = town.machines[name]
        for port in (NODE_PORT, REPLICA_PORTS[0], REPLICA_PORTS[1]):
            machine.place.do(listen(port))
            assert town.hub.place.do(answers(machine.address, port, within_s=10)), (name, port)
        assert machine.place.do(answers(HUB_ADDRESS, DOOR_PORT, within_s=10)), name
    present = town.hub.place.do(town.hub.interface.present())
    assert all(peer.handshake_at_s > 0 for peer in present.peers)


@pytest.mark.parametrize("rounds", [1, pytest.param(5, marks=pytest.mark.long)])
@pytest.mark.long
def test_peers_come_and_go_while_a_stream_flows(town: Town, rounds: int) -> None:
    town.join("near", "behind")
    behind = town.machines["behind"]
    behind.place.do(serve_stream(NODE_PORT))
    town.machines["third"].place.do(listen(NODE_PORT))
    reading = town.hub.place.do(start_reading(behind.address, NODE_PORT))
    changes = 0
    for _ in range(rounds):
        for change in (lambda: town.join("third"), lambda: town.leave("near"), lambda: town.join("near")):
            change()
            changes += 1
            town.hub.place.do(reading.goes_on())
        town.redial("third")
        assert town.hub.place.do(answers(MACHINES["third"], NODE_PORT, within_s=15))
        town.leave("third")
        changes += 1
        assert not town.hub.place.do(answers(MACHINES["third"], NODE_PORT, within_s=0.5))
        town.hub.place.do(reading.goes_on())
    assert reading.broken is None
    print(
        f"{changes} changes of peers, {reading.blocks} blocks of one stream, longest pause {reading.longest_pause_s:.2f} s"
    )


def test_keys_are_renewed_while_a_stream_flows(town: Town) -> None:
    town.join("behind")
    behind = town.machines["behind"]
    behind.place.do(serve_stream(NODE_PORT))
    reading = town.hub.place.do(start_reading(behind.address, NODE_PORT))
    old_keys = {town.hub.public_key, behind.public_key}
    behind.private_key = new_private_key()
    town.apply_hub()
    town.apply_machine("behind")
    town.hub.place.do(_has_spoken_to_all(town.hub))
    town.hub.place.do(reading.goes_on())
    town.hub.private_key = new_private_key()
    town.apply_hub()
    town.apply_machine("behind")
    behind.place.do(_has_spoken_to_all(behind))
    town.hub.place.do(reading.goes_on())
    for end in (town.hub, behind):
        present = end.place.do(end.interface.present())
        assert not old_keys & {present.public_key, *(peer.public_key for peer in present.peers)}
    assert reading.broken is None
    print(f"both keys renewed, longest pause of the stream {reading.longest_pause_s:.2f} s")


@pytest.mark.long
def test_of_the_installation_a_machine_reaches_its_door_alone(town: Town) -> None:
    """A hostile one: no firewall of its own, and every address routed into the tunnel."""
    town.join("near", "behind")
    hub, behind, neighbour = (town.hub.place, town.machines["behind"].place, town.places["neighbour"])
    for port in (DOOR_PORT, *OTHER_PORTS):
        for place in (hub, behind, neighbour):
            place.do(listen(port))
    hub.sh("ip address add 10.91.0.1/32 dev lo")
    town.betray("near")
    near = town.machines["near"].place
    targets = [
        *((HUB_ADDRESS, port) for port in OTHER_PORTS),
        *((address, DOOR_PORT) for address in ("10.91.0.1", "172.30.2.1")),
        *((address, port) for address in ("10.91.0.1", "172.30.2.1") for port in (22, 5432, 8080)),
        *((MACHINES["behind"], port) for port in (DOOR_PORT, NODE_PORT, REPLICA_PORTS[0])),
        *(("172.30.2.2", port) for port in (22, 8080)),
    ]
    assert near.do(answers(HUB_ADDRESS, DOOR_PORT, within_s=10))
    assert near.do(_reached(targets)) == []
    heard = hub.do(listen_udp(5353))
    for _ in range(3):
        near.loop.call_soon_threadsafe(tell_udp, HUB_ADDRESS, 5353, b"hello")
    assert near.do(answers(HUB_ADDRESS, DOOR_PORT)), "it still does, and what was sent before has passed"
    assert heard.empty()
    print(f"of {len(targets) + 2} addresses and ports, a machine reaches its door")


@pytest.mark.long
def test_a_machine_holds_few_connections_of_the_door(town: Town) -> None:
    """Each is a descriptor of the controller's. Also after the rules that let it in were set anew."""
    town.join("near")
    town.hub.place.do(listen(DOOR_PORT))
    near = town.machines["near"].place
    assert near.do(answers(HUB_ADDRESS, DOOR_PORT, within_s=10))
    assert 50 < near.do(_held(HUB_ADDRESS, DOOR_PORT, 100)) <= 64
    town.hub.place.sh(f"iptables -F MOOR-TIN-{town.hub.interface.name}")
    town.apply_hub()
    assert near.do(answers(HUB_ADDRESS, DOOR_PORT, within_s=10))
    assert 50 < near.do(_held(HUB_ADDRESS, DOOR_PORT, 100)) <= 64


@pytest.mark.long
def test_a_machine_cannot_speak_from_anothers_address(town: Town) -> None:
    town.join("near", "behind")
    town.hub.place.do(listen(DOOR_PORT))
    town.betray("near")
    near = town.machines["near"]
    assert near.place.do(answers(HUB_ADDRESS, DOOR_PORT, within_s=10))
    near.place.sh(f"ip address add {MACHINES['behind']}/32 dev {near.interface.name}")
    near.place.sh(f"ip route replace {HUB_ADDRESS}/32 dev {near.interface.name} src {MACHINES['behind']}")
    assert not near.place.do(answers(HUB_ADDRESS, DOOR_PORT))


@pytest.mark.long
def test_no_container_reaches_the_tunnel(town: Town) -> None:
    town.join("near", "behind")
    town.hub.place.do(listen(DOOR_PORT))
    town.machines["behind"].place.do(listen(NODE_PORT))
    assert town.hub.place.do(answers(MACHINES["behind"], NODE_PORT, within_s=10))
    # As Docker does it: what they send comes from their machine, wherever it goes.
    for host in (town.hub.place, town.machines["near"].place):
        host.sh("iptables -t nat -A POSTROUTING -s 172.30.0.0/16 -j MASQUERADE")
    town.places["internet"].do(listen(80))
    for name in ("tenant", "neighbour"):
        place = town.places[name]
        assert place.do(answers("10.90.0.1", 80)), f"{name} has no way out at all"
        for target in ((HUB_ADDRESS, DOOR_PORT), (MACHINES["behind"], NODE_PORT)):
            if (name, target[0]) != (
                "neighbour",
                HUB_ADDRESS,
            ):  # its own machine's: the engine's firewall says so
                assert not place.do(answers(*target, within_s=1)), (name, target)


@pytest.mark.long
def test_a_neighbour_reaches_no_address_of_the_tunnel_past_it(town: Town) -> None:
    town.join("near")
    near, hub, neighbour = town.machines["near"].place, town.hub.place, town.places["internet"]
    near.do(listen(REPLICA_PORTS[0]))
    # A published port, as Docker makes it: forwarded to a container.
    published = (
        f"-d {MACHINES['near']} -p tcp --dport {REPLICA_PORTS[0] + 1} -j DNAT --to-destination 172.30.1.2:80"
    )
    near.sh(f"iptables -t nat -A PREROUTING {published}")
    town.places["tenant"].do(listen(80))
    hub.do(listen(DOOR_PORT))
    neighbour.sh(f"ip route add {MACHINES['near']}/32 via 10.90.1.2")
    neighbour.sh(f"ip route add {HUB_ADDRESS}/32 via {HUB_PUBLIC}")
    targets = [
        (MACHINES["near"], REPLICA_PORTS[0]),
        (MACHINES["near"], REPLICA_PORTS[0] + 1),
        (HUB_ADDRESS, DOOR_PORT),
    ]
    for address, port in targets[:2]:
        assert hub.do(answers(address, port, within_s=10)), "through the tunnel it is there"
    assert near.do(answers(HUB_ADDRESS, DOOR_PORT, within_s=10))
    assert [target for target in targets if neighbour.do(answers(*target))] == []


def test_other_users_of_the_hub_do_not_reach_the_tunnel(town: Town) -> None:
    town.join("near")
    town.machines["near"].place.do(listen(NODE_PORT))
    assert town.hub.place.do(answers(MACHINES["near"], NODE_PORT, within_s=10))
    dial = f"import socket; socket.create_connection(('{MACHINES['near']}', {NODE_PORT}), 3)"
    inside = ["ip", "netns", "exec", town.hub.place.name]
    by_root = subprocess.run([*inside, sys.executable, "-c", dial], capture_output=True, timeout=20)
    assert by_root.returncode == 0, by_root.stderr
    other = [*inside, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    by_another = subprocess.run(
        [*other, "/usr/bin/python3", "-c", dial], capture_output=True, text=True, timeout=20
    )
    assert "refused" in by_another.stderr.lower(), by_another.stderr


def test_nothing_changes_when_nothing_is_to_change(town: Town) -> None:
    town.join("near")
    state = (
        town.hub.place.sh("iptables -S"),
        town.hub.place.sh("ip -4 address"),
        town.hub.place.sh("ip route"),
    )
    counters = town.hub.place.sh("iptables -nvxL INPUT")
    town.machines["near"].place.do(answers(HUB_ADDRESS, NODE_PORT, within_s=0.5))
    counted = town.hub.place.sh("iptables -nvxL INPUT")
    assert counters != counted
    town.apply_hub()
    again = (
        town.hub.place.sh("iptables -S"),
        town.hub.place.sh("ip -4 address"),
        town.hub.place.sh("ip route"),
    )
    assert again == state
    assert " 0     0 MOOR-TIN" not in town.hub.place.sh("iptables -nvL INPUT"), "the rules were set anew"


def test_while_the_tunnel_is_away_nothing_leaves_by_another_way(town: Town) -> None:
    """The default route leads to somebody who answers for a machine's address, in the open."""
    town.join("near")
    near, hub = MACHINES["near"], town.hub
    elsewhere = town.places["internet"]
    elsewhere.sh(f"ip address add {near}/32 dev lo")
    elsewhere.do(listen(NODE_PORT))
    pid = hub.interface._daemon.running_pid()
    if pid is None:
        hub.place.sh(f"ip link delete {hub.interface.name}")
    else:
        os.kill(pid, signal.SIGKILL)
    hub.place.do(_is_gone(hub))
    assert not hub.place.do(answers(near, NODE_PORT))
    hub.place.do(hub.interface.take_down())
    assert hub.place.do(answers(near, NODE_PORT)), "nothing is left of it"


def test_a_gateway_host_closes_other_ways_before_it_asks_anybody(town: Town, tmp_path: Path) -> None:
    """After a start of the machine HAProxy speaks to what it served last, perhaps before the database answers."""
    settings = Settings(home=tmp_path)
    hub = TunnelHub(
        "gateway", Database("postgresql://nobody@127.0.0.1:1/none"), Listener(""), settings, system_clock
    )
    elsewhere, place = town.places["internet"], town.hub.place
    elsewhere.sh(f"ip address add {MACHINES['near']}/32 dev lo")
    elsewhere.do(listen(NODE_PORT))
    place.do(hub.close_other_ways())
    assert place.do(answers(MACHINES["near"], NODE_PORT)), "no machine ever joined: nothing is touched"
    load_or_create_private_key(tmp_path / "tunnel-key")
    place.do(hub.close_other_ways())
    assert not place.do(answers(MACHINES["near"], NODE_PORT))


def test_a_tunnel_that_died_comes_back(town: Town) -> None:
    town.join("near")
    town.machines["near"].place.do(listen(NODE_PORT))
    assert town.hub.place.do(answers(MACHINES["near"], NODE_PORT, within_s=10))
    pid = town.hub.interface._daemon.running_pid()
    if pid is None:
        town.hub.place.sh(f"ip link delete {town.hub.interface.name}")
    else:
        os.kill(pid, signal.SIGKILL)
    town.hub.place.sh("iptables -F")
    town.apply_hub()
    # The hub knows nobody's address: a machine speaks first.
    town.redial("near")
    assert town.hub.place.do(answers(MACHINES["near"], NODE_PORT, within_s=10))


def test_taken_down_it_leaves_nothing(town: Town) -> None:
    before = town.hub.place.sh("iptables -S")
    town.join("near")
    assert town.hub.interface.name in town.hub.place.sh("ip link")
    for _ in range(2):
        town.hub.place.do(take_down_all(town.hub.interface.run_dir, town.hub.interface.log_dir))
    assert town.hub.interface.name not in town.hub.place.sh("ip link")
    rules = town.hub.place.sh("iptables -S")
    assert not any(name in rules for name in chain_names(town.hub.interface.name))
    assert rules.splitlines()[:3] == (before.splitlines() or rules.splitlines())[:3]
    assert town.hub.interface._daemon.running_pid() is None


async def _is_gone(end: End) -> None:
    deadline_s = system_clock.monotonic() + 10
    while await end.interface._exists():
        assert system_clock.monotonic() < deadline_s, "the interface is still there"
        await asyncio.sleep(0.02)


async def _held(address: str, port: int, wanted: int) -> int:
    """How many connections of so many come about while all of them last."""

    async def connect() -> asyncio.StreamWriter | None:
        try:
            async with asyncio.timeout(0.8):
                _, writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError):
            return None
        return writer

    writers = [one for one in await asyncio.gather(*(connect() for _ in range(wanted))) if one is not None]
    for writer in writers:
        writer.transport.abort()
    return len(writers)


async def _reached(targets: list[tuple[str, int]]) -> list[tuple[str, int]]:
    answered = await asyncio.gather(*(answers(*target) for target in targets))
    return [target for target, does in zip(targets, answered, strict=True) if does]


async def _has_spoken_to_all(end: End) -> None:
    """With the keys that it has now."""
    while not all(peer.handshake_at_s for peer in (await end.interface.present()).peers):
        await system_clock.sleep(0.1)

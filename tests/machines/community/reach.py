"""What a tenant on a lent machine reaches of its owner's: asked from inside a replica, and for comparison from the machine itself."""

import contextlib
import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx

from moorage.engines.docker.create import name_of
from moorage.tunnel.addresses import DOOR_PORT, NODE_PORT
from tests.acceptance.stack import until
from tests.machines.community.people import NEIGHBOUR
from tests.machines.fleet import Fleet
from tests.machines.lab import Lab
from tests.machines.wires import BEHIND, HERE
from tests.tunnel.places import Place

Target = tuple[str, int]
LAN = (
    *(f"192.168.50.{last}" for last in range(101, 121)),
    *(f"10.231.89.{last}" for last in range(1, 5)),
    *("172.16.231.89", "172.31.231.89", "100.64.231.89", "169.254.231.89"),
)
"""At the owner's, behind their router."""
LAN_6 = ("fd00:231::89", "fd00:231::90")
_OWN_6 = "fd00:231::2"
_LAN_PORTS = (22, 80, 445)
_OWN_PORT = 8022
"""Where something of the machine itself listens, at all of its addresses."""
METADATA = ("169.254.169.254", "169.254.170.2")
_KNOCK = """
import socket, sys, threading
def knock(address, port):
    try:
        socket.create_connection((address, int(port)), 4).close()
        print("reached", address, port, flush=True)
    except ConnectionRefusedError:
        print("refused", address, port, flush=True)
    except OSError:
        pass
tries = [threading.Thread(target=knock, args=one.rsplit("/", 1)) for one in sys.argv[1:]]
[one.start() for one in tries]
[one.join() for one in tries]
print("tried", len(tries), flush=True)
"""
_ANSWER = """
import socket, sys, threading
def answer(port):
    listening = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    while True: listening.accept()[0].close()
for port in map(int, sys.argv[1:]): threading.Thread(target=answer, args=(port,)).start()
"""


def nothing_is_reached(fleet: Fleet, replica: str) -> str:
    """By a tenant's replica there; the machine itself reaches all but what clouds have."""
    lab = fleet.lab
    attic = lab.machines[BEHIND]
    with _owners_network(lab.wires.places["router"], attic.place):
        attic.run(f"setsid python3 -c '{_ANSWER}' {_OWN_PORT} </dev/null >/dev/null 2>&1 &")
        near, far = _targets(lab)
        until(lambda: _knocked(lab, near) == set(near), "the machine itself reaches what is near", pause_s=1)
        addressed = attic.run(f"docker exec {name_of(replica)} cat /proc/net/if_inet6", check=False)
        knock = f"docker exec {name_of(replica)} python3 -c '{_KNOCK}' {_named([*near, *far])}"
        said = attic.run(knock, limit_s=300)
        answering = _knocked(lab, [*near, *far])
    lines = said.stdout.splitlines()
    targets = [*near, *far]
    assert lines[-1:] == [f"tried {len(targets)}"], said
    assert lines[:-1] == [], "a tenant reached what is the owner's, the tunnel's or the machine's"
    addresses = {address for address, _ in targets}
    assert len(addresses) >= 30, addresses
    sixes = [line for line in addressed.stdout.splitlines() if not line.endswith(" lo")]
    return (
        f"0 of {len(addresses)} addresses ({len(targets)} with ports; {len({one for one, _ in answering})} answer the machine itself); "
        f"{len(sixes)} IPv6 addresses of its own"
    )


def nobody_gets_in(lab: Lab) -> str:
    """From where the installation is: at the address by which the world knows the machine, and at its own."""
    lab.machines[BEHIND].run(f"setsid python3 -c '{_ANSWER}' {_OWN_PORT} </dev/null >/dev/null 2>&1 &")
    until(lambda: _knocked(lab, [("127.0.0.1", _OWN_PORT)]), "something listens there")
    tried = [
        (address, port) for address in ("10.92.9.2", "192.168.50.2") for port in (22, NODE_PORT, _OWN_PORT)
    ]
    for target in tried:
        with contextlib.suppress(OSError), socket.create_connection(target, 2):
            raise AssertionError(f"{target} let us in")
    return f"0 of {len(tried)} doors of {BEHIND} open to the installation"


def _targets(lab: Lab) -> tuple[list[Target], list[Target]]:
    """What is near: at the owner's, and the machine itself. And what is far: the tunnel, and what clouds have."""
    attic = lab.machines[BEHIND]
    membership = json.loads(_membership(lab))
    addresses = json.loads(attic.run("ip -json address").stdout)
    own = [
        one["local"]
        for link in addresses
        for one in link["addr_info"]
        if link["ifname"] != "lo" and one["scope"] == "global"
    ]
    assert membership["address"] in own, own
    near = [
        *((address, port) for address in (*LAN, *LAN_6) for port in _LAN_PORTS),
        *((address, _OWN_PORT) for address in own),
        (HERE, httpx.URL(lab.stack.settings["MOORAGE_PUBLIC_URL"]).port or 443),
        *((address, 80) for address in ("192.168.50.1", "10.92.9.2")),
    ]
    far = [
        (membership["address"], NODE_PORT),
        *((hub["address"], DOOR_PORT) for hub in membership["hubs"]),
        (str(lab.row(NEIGHBOUR)["address"]), NODE_PORT),
        *((hub["address"], port) for hub in membership["hubs"] for port in (22, 5432)),
        *((address, 80) for address in METADATA),
    ]
    return near, far


def _membership(lab: Lab) -> str:
    return lab.machines[BEHIND].run("cat /etc/moorage/membership.json").stdout


def _knocked(lab: Lab, targets: list[Target]) -> set[Target]:
    """By the machine itself."""
    said = lab.machines[BEHIND].run(f"python3 -c '{_KNOCK}' {_named(targets)}").stdout
    found = [line.split() for line in said.splitlines() if line.startswith("reached ")]
    return {(address, int(port)) for _, address, port in found}


def _named(targets: list[Target]) -> str:
    return " ".join(f"{address}/{port}" for address, port in targets)


@contextlib.contextmanager
def _owners_network(router: Place, attic: Place) -> Iterator[None]:
    """Others at the owner's, all of them the router here, which answer at the ports that are worth a knock."""
    home = next(one["ifname"] for one in json.loads(router.sh("ip -json address")) if _is_home(one))
    own = json.loads(attic.sh("ip -json route show default"))[0]["dev"]
    for address in LAN:
        router.sh(f"ip address add {address}/32 dev {home}")
    for place, link, addresses in ((router, home, LAN_6), (attic, own, (_OWN_6,))):
        for address in addresses:
            place.sh(f"ip address add {address}/64 dev {link} nodad")
    command = ["ip", "netns", "exec", router.name, "python3", "-c", _ANSWER, *map(str, _LAN_PORTS)]
    answering = subprocess.Popen(command)
    try:
        yield
    finally:
        answering.kill()
        answering.wait(timeout=10)
        for address in LAN:
            router.sh(f"ip address delete {address}/32 dev {home}")
        for place, link, addresses in ((router, home, LAN_6), (attic, own, (_OWN_6,))):
            for address in addresses:
                place.sh(f"ip address delete {address}/64 dev {link}")


def _is_home(link: dict[str, object]) -> bool:
    found = link["addr_info"]
    return isinstance(found, list) and any(one.get("local") == "192.168.50.1" for one in found)


def sandbox_of(fleet: Fleet, replica: str) -> str:
    """What a replica there sees, and how it was started."""
    attic = fleet.lab.machines[BEHIND]
    how = attic.run(
        f"docker inspect --format '{{{{.HostConfig.Runtime}}}}' {name_of(replica)}"
    ).stdout.strip()
    seen = attic.run(f"docker exec {name_of(replica)} cat /proc/version").stdout.strip()
    outside = Path("/proc/version").read_text().strip()
    assert how == "moorage-runsc", how
    assert seen != outside, "its kernel is the machine's own"
    return f"{how}: {seen}"

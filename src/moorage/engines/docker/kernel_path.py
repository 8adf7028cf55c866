"""Requests for replicas go the kernel's way and not through Docker's proxies, where the kernel can.

Docker gives each published port a process that accepts a connection before it looks whether anybody answers behind it, and
rules by which the kernel would send such a connection to the container itself, but not from loopback. Two rules of ours
let it: a replica that was killed then refuses connections, which may be tried elsewhere, instead of accepting and closing
them, which may not. Whoever takes Docker's rules or ours away leaves the proxies, so nothing depends on this.
"""

import re
from collections import Counter
from pathlib import Path

from moorage.engines.docker import iptables
from moorage.engines.docker.iptables import Chain, FirewallUnusableError

_TABLE = "nat"
_SETTINGS = Path("/proc/sys/net/ipv4/conf")
_TO_A_CONTAINER = re.compile(r"-A DOCKER -d 127\.0\.0\.1/32 .*--dport (\d+) -j DNAT ")


def chains(bridge: str, suffix: str, ports: tuple[int, int]) -> tuple[Chain, ...]:
    there, back = f"MOOR-TO-{suffix}", f"MOOR-AS-{suffix}"
    first, last = ports
    return (
        Chain(
            there,
            "OUTPUT",
            f"-d 127.0.0.1/32 -p tcp -m tcp --dport {first}:{last}",
            (f"-A {there} -j DOCKER",),
        ),
        # A container cannot answer to loopback: what comes from there comes from the bridge's own address.
        Chain(
            back, "POSTROUTING", f"-s 127.0.0.1/32 -o {bridge} -p tcp", (f"-A {back} -p tcp -j MASQUERADE",)
        ),
    )


async def open_up(bridge: str, suffix: str, ports: tuple[int, int]) -> None:
    """Cheap to repeat. Raises `FirewallUnusableError`."""
    present = await iptables.present_rules("iptables", _TABLE)
    try:
        _route_loopback(_SETTINGS / bridge / "route_localnet")
        _check_leftovers(present)
    except FirewallUnusableError:
        await withdraw(bridge, suffix)
        raise
    changes = [
        line
        for chain in chains(bridge, suffix, ports)
        if not chain.is_in(present)
        for line in chain.put_first(present)
    ]
    if changes:
        await iptables.restore("iptables", changes, _TABLE)


async def withdraw(bridge: str, suffix: str) -> None:
    if iptables.is_installed("iptables"):
        names = {chain.name for chain in chains(bridge, suffix, (0, 0))}
        await iptables.remove_chains("iptables", names, _TABLE)


def _route_loopback(setting: Path) -> None:
    """For packets that leave by this bridge, which would not arrive without it. What a container sends to this machine's
    loopback, the firewall drops."""
    try:
        if setting.read_text().strip() != "1":
            setting.write_text("1")
    except OSError as exc:
        raise FirewallUnusableError(
            f"net.ipv4.conf.{setting.parent.name}.route_localnet may not be set: {exc.strerror}"
        ) from exc


def _check_leftovers(present: list[str]) -> None:
    """Where Docker forgot a rule and gave its port to another replica, the first of the two would have its requests."""
    ports = Counter(found[1] for line in present if (found := _TO_A_CONTAINER.match(line)))
    for port, count in ports.items():
        if count > 1:
            raise FirewallUnusableError(f"Docker left a rule for port {port} behind; restart it")

"""The firewall rules of our bridge: a container talks to public addresses and to nobody else, and of this machine's
users only those of Moorage talk to a container.

Traffic to the machine itself passes INPUT, not DOCKER-USER, so there is a chain for each. Both are filled
and put in front in one `iptables-restore` transaction: at no moment is there half a firewall. Docker keeps
DOCKER-USER over its restarts; whatever else reloads the firewall is noticed by the next check.

What users of this machine send passes OUTPUT. Replicas listen on loopback ports and on the bridge, and loopback
belongs to everybody who has an account here: without the third chain they would reach every replica without a key.

The kernel notes every connection through this machine in one table, and when it is full nobody gets a new one. A fourth chain
gives each container a share of it.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from moorage.engines.docker import iptables
from moorage.engines.docker.iptables import Chain, FirewallUnusableError
from moorage.outbound.networks import NOT_PUBLIC

_DOCKER_USER_JUMP = "-A FORWARD -j DOCKER-USER"
_HARMLESS_BEFORE = (" -j MOOR-", " -j DOCKER-ISOLATION-STAGE-1")
"""The second drops or returns, and comes first once Docker was restarted."""
_LOOKS = 10
_BETWEEN_LOOKS_S = 0.2
_REPLIES = "-m conntrack --ctstate RELATED,ESTABLISHED"
_MAIL_PORTS = (25, 465, 587)
_CONNECTIONS_HELD = 4096
"""Of one container to the world outside. Beyond it new ones wait until others have ended."""
_TCP_CONNECTIONS_PER_S, _TCP_CONNECTIONS_AT_ONCE = 50, 1000
"""One that was closed is not counted above, yet stays in the table for two minutes."""


@dataclass(frozen=True)
class LocalUse:
    """Who on this machine may connect to replicas and to what is between us and an engine: the gateway, our own probes, engines."""

    ports: tuple[int, int]
    """On loopback, first and last."""
    user_ids: tuple[int, ...]
    pulls_port: int | None = None
    """Also on loopback: what engines pull through, which holds a descriptor for whoever connects."""


def chains(bridge: str, suffix: str, *, mail_closed: bool = False) -> tuple[Chain, ...]:
    """`mail_closed`: on a machine of somebody else's, whose address would be known for what tenants send."""
    to_host, forwarded = f"MOOR-HOST-{suffix}", f"MOOR-OUT-{suffix}"
    return (
        Chain(
            to_host, "INPUT", f"-i {bridge}", (f"-A {to_host} {_REPLIES} -j ACCEPT", f"-A {to_host} -j DROP")
        ),
        Chain(
            forwarded,
            "DOCKER-USER",
            f"-i {bridge}",
            (
                f"-A {forwarded} {_REPLIES} -j RETURN",
                *(f"-A {forwarded} -d {network} -j DROP" for network in NOT_PUBLIC),
                *(
                    f"-A {forwarded} -p tcp -m tcp --dport {port} -j DROP"
                    for port in (_MAIL_PORTS if mail_closed else ())
                ),
            ),
        ),
    )


def chains_v6(bridge: str, suffix: str) -> tuple[Chain, ...]:
    """Our network has no IPv6, so nothing is let through; for the day that somebody switches it on."""
    names = ((f"MOOR-HOST-{suffix}", "INPUT"), (f"MOOR-OUT-{suffix}", "FORWARD"))
    return tuple(Chain(name, origin, f"-i {bridge}", (f"-A {name} -j DROP",)) for name, origin in names)


def local_chain(bridge: str, suffix: str, use: LocalUse) -> Chain:
    """New connections alone: an answer may have no socket any more, and then no owner to ask for."""
    name = f"MOOR-USE-{suffix}"
    first, last = use.ports
    guarded = (f"{first}:{last}", *((str(use.pulls_port),) if use.pulls_port is not None else ()))
    return Chain(
        name,
        "OUTPUT",
        "-p tcp -m conntrack --ctstate NEW",
        (
            *(f"-A {name} -m owner --uid-owner {user_id} -j RETURN" for user_id in sorted(use.user_ids)),
            # Where the sender meant it to go: an engine without proxies has sent it on to the bridge by now, unseen by `-o`.
            *(
                f"-A {name} -p tcp -m conntrack --ctorigdst 127.0.0.1 --ctorigdstport {ports} -j REJECT --reject-with tcp-reset"
                for ports in guarded
            ),
            f"-A {name} -o {bridge} -p tcp -j REJECT --reject-with tcp-reset",
        ),
    )


def share_chain(bridge: str, suffix: str) -> Chain:
    name = f"MOOR-NEW-{suffix}"
    pace = f"--hashlimit-above {_TCP_CONNECTIONS_PER_S}/sec --hashlimit-burst {_TCP_CONNECTIONS_AT_ONCE}"
    by_container = f"--hashlimit-mode srcip --hashlimit-name moor{suffix}"
    held = f"--connlimit-above {_CONNECTIONS_HELD} --connlimit-mask 32 --connlimit-saddr"
    return Chain(
        name,
        "DOCKER-USER",
        f"-i {bridge} -m conntrack --ctstate NEW",
        (
            f"-A {name} -p tcp -m hashlimit {pace} {by_container} -j DROP",
            f"-A {name} -m connlimit {held} -j DROP",
        ),
    )


async def enforce(bridge: str, suffix: str, *, mail_closed: bool = False) -> None:
    """Set the rules where they are missing, changed or not in front. Raises `FirewallUnusableError`."""
    await _enforce("iptables", chains(bridge, suffix, mail_closed=mail_closed))
    if _machine_has_ipv6():
        await _enforce("ip6tables", chains_v6(bridge, suffix))


async def enforce_local_use(bridge: str, suffix: str, use: LocalUse) -> None:
    """By itself, because not every kernel can tell whose a packet is: that must not cost the other rules."""
    await _enforce("iptables", (local_chain(bridge, suffix, use),))


async def enforce_shares(bridge: str, suffix: str) -> None:
    """By itself, because not every kernel can count connections."""
    await _enforce("iptables", (share_chain(bridge, suffix),))


def _machine_has_ipv6() -> bool:
    return Path("/proc/net/if_inet6").exists()


async def withdraw(bridge: str, suffix: str) -> None:
    names = {chain.name for chain in (*chains(bridge, suffix), *chains_v6(bridge, suffix))}
    names |= {
        local_chain(bridge, suffix, LocalUse((0, 0), ())).name,
        share_chain(bridge, suffix).name,
    }
    for program in filter(iptables.is_installed, ("iptables", "ip6tables")):
        await iptables.remove_chains(program, names)


async def _enforce(program: str, wanted: tuple[Chain, ...]) -> None:
    present = await _rules_with_dockers() if program == "iptables" else await iptables.present_rules(program)
    changes: list[str] = []
    if program == "iptables" and not _docker_user_is_in_front(present):
        # Where Docker itself puts it at each start; a firewall program that was reloaded since got before it.
        changes += [f"-D{_DOCKER_USER_JUMP.removeprefix('-A')}"] * present.count(_DOCKER_USER_JUMP)
        changes.append("-I FORWARD 1 -j DOCKER-USER")
    for chain in wanted:
        if is_enforced(chain, present):
            continue
        changes += chain.put_first(present)
    if changes:
        await iptables.restore(program, changes)


async def _rules_with_dockers() -> list[str]:
    """An engine that starts, this one or another on the machine, takes its chains away and brings them back."""
    for _ in range(_LOOKS):
        present = await iptables.present_rules("iptables")
        if _DOCKER_USER_JUMP in present:
            return present
        await asyncio.sleep(_BETWEEN_LOOKS_S)
    raise FirewallUnusableError(
        "the Docker engine does not manage this machine's firewall (there is no DOCKER-USER chain)"
    )


def is_enforced(chain: Chain, present: list[str]) -> bool:
    """Whether `iptables -S` shows exactly these rules, entered before anything could let a packet pass."""
    in_front = chain.entered_from != "DOCKER-USER" or _docker_user_is_in_front(present)
    return in_front and chain.is_first_in(present)


def _docker_user_is_in_front(present: list[str]) -> bool:
    forward = [line for line in present if line.startswith("-A FORWARD ")]
    for line in forward:
        if line == _DOCKER_USER_JUMP:
            return True
        if not any(harmless in line for harmless in _HARMLESS_BEFORE):
            return False
    return False
